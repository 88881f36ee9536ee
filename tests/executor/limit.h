#pragma once

// Limits of the system that programs of a test run into.

#include <sys/resource.h>

namespace xt {

/// While it lives, what this process starts has no more than `most` of a resource.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit limited{most, before_.rlim_max};
    setrlimit(resource_, &limited);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

}  // namespace xt
