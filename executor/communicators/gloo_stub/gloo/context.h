#pragma once

// Stands in for a header of Gloo, which the torch wheel does not ship although its own headers
// include it. Declares only what they name; see gloo.cpp for the rules of its use.

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
