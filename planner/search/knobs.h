#pragma once

// What a search may choose: fields of a run file and the values worth trying. A field that the user
// gives has that one value. To search one more field is one more line in knobs().

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/lower/engine.h"
#include "planner/plan/plan.h"

namespace xt {

/// One value of a field: as people read it, and how to set it.
///
/// Assumes: `set` is called after those of the knobs before its own
struct KnobValue {
  std::string text;
  std::function<void(RunFile&)> set;
};

/// What a knob decides: the layout of ranks and packs, which the op graph and all checks depend on,
/// or what a layout does with its layers.
enum class KnobKind : std::uint8_t { layout, layers };

/// A field that may be searched.
struct Knob {
  std::string_view name;  ///< of the run file's field
  KnobKind kind = KnobKind::layout;
  std::vector<KnobValue> values;  ///< one, if it is given or there is no choice
};

/// The knobs of a run: those of the layout, then those of layers.
///
/// expert_parallel:  powers of two up to the ranks of a node, or all where it may leave the node
/// shard_ranks:      all ranks, and powers of two of a node's
/// recompute, swap:  none, quarters and all of the layers that can be; of swap, of those recomputed
/// loss_chunk:       see loss_chunks()
std::vector<Knob> knobs(const RunFile& given, const Subject& subject, const EngineRules& rules);

}  // namespace xt
