#pragma once

// Tests that need several ranks: a test program starts itself as the ranks of a scenario, which
// report a broken claim by an exception. A program that uses this has ranks_main as its main.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "executor/communicators/gloo.h"
#include "executor/communicators/rendezvous.h"
#include "executor/launch/launcher.h"

namespace xt {

/// What one rank of a scenario does.
using Scenario = std::function<void(Rendezvous&, GlooNetwork&)>;

/// Stops the rank with `claim` unless it holds.
void require(bool holds, const std::string& claim);

/// The exit code of `n_ranks` ranks that run `scenario`.
int run_ranks(const std::string& scenario, int n_ranks,
              std::vector<std::pair<std::string, std::string>> variables = {});

/// Runs the tests or, when started as a rank, one of `scenarios`. A rank exits 0, 2 for an
/// InputError, 3 for PeerLost, and 4 for a broken claim.
int ranks_main(int argc, char** argv, const std::map<std::string, Scenario>& scenarios);

}  // namespace xt
