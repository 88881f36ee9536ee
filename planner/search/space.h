#pragma once

// All steps that a search compares: every combination of the knobs' values that planning allows,
// and those that it refuses, with its reasons. All have equally many tokens, so that they train the
// same: ranks that share packs and packs in lock-step are traded for micro-steps.

#include <optional>
#include <string>
#include <vector>

#include "costmodel/ir/op_graph.h"
#include "planner/search/knobs.h"

namespace xt {

/// Positions of values, by knob.
using Values = std::vector<std::uint8_t>;

/// Candidates of one op graph.
struct Layout {
  RunFile fields;  ///< with the values of the layout's knobs
  Plan plan;
  OpGraph graph;
};

/// One step.
struct Candidate {
  std::size_t layout = 0;
  Values values;
  Strategy strategy;
};

/// Combinations that planning refuses.
struct Refused {
  Values values;                     ///< of the first knobs; the rest can be anything
  std::int64_t n = 1;                ///< combinations
  std::vector<std::string> reasons;  ///< the problems that planning reports
};

/// What is searched. Combinations that come to the same step are one candidate.
struct SearchSpace {
  std::vector<Knob> knobs;
  std::int64_t tokens_per_step = 0;
  std::vector<Layout> layouts;
  std::vector<Candidate> candidates;
  std::vector<Refused> refused;

  const Layout& layout(const Candidate& of) const { return layouts[of.layout]; }
};

/// The steps that have what `request` gives, and anything in what it leaves open.
///
/// `tokens_per_step`: of all ranks; where it is not given, those of `request` itself, in which what
/// is left open is 1. gradient_accumulation follows from it.
/// Throws: InputError with every problem of what is given
SearchSpace enumerate(Request& request, const Subject& subject,
                      std::optional<std::int64_t> tokens_per_step, std::size_t n_threads);

/// The plan of `candidate`.
Plan plan_of(const SearchSpace& space, const Candidate& candidate);

/// The run file that asks for exactly `candidate`.
RunFile run_file_of(const SearchSpace& space, const Candidate& candidate);

}  // namespace xt
