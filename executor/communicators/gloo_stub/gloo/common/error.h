#pragma once

// Stands in for a header of Gloo, which the torch wheel does not ship although its own headers
// include it. Declares only what they name; see gloo.cpp for the rules of its use.
