#pragma once

// The curves of a profile: how much of a peak or a bandwidth kernels, collectives and copies reach
// at the sizes they come in, each with where its points came from.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/document/reader.h"
#include "costmodel/hardware/curve.h"
#include "costmodel/hardware/sourced.h"
#include "costmodel/ir/kernel.h"
#include "costmodel/units/dtype.h"
#include "costmodel/units/quantity.h"

namespace xt {

/// How far apart the ranks of a group are at most.
enum class Scope : std::uint8_t {
  device,  ///< ranks of one package
  node,    ///< devices of one node
  domain,  ///< nodes joined by the scale-up network
  network  ///< nodes joined by the scale-out network only
};

inline constexpr std::array<std::string_view, 4> scope_names = {"device", "node", "domain",
                                                                "network"};

/// The spellings of a scope.
constexpr const auto& enum_names(Scope) { return scope_names; }

inline constexpr std::array<std::string_view, n_kernels> kernel_names = [] {
  std::array<std::string_view, n_kernels> names{};
  for (std::size_t i = 0; i < n_kernels; ++i) names[i] = kernel_rows[i].name;
  return names;
}();

/// The spellings of a kernel.
constexpr const auto& enum_names(Kernel) { return kernel_names; }

/// A curve of plain numbers with where its points came from.
struct SourcedCurve {
  Curve curve;
  Provenance from = {};

  bool operator==(const SourcedCurve&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    from.describe(archive);
    archive.field("points", curve.points, "Rows [x, value], x ascending");
  }
  void check(Reader& reader) const;
};

/// How much of the dense peak a matrix product reaches: base · rows(m) · columns(n) · inner(k).
struct MatmulEfficiency {
  Sourced<double> base;
  SourcedCurve rows;
  SourcedCurve columns;
  SourcedCurve inner;

  bool operator==(const MatmulEfficiency&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("base", base, "Fraction of the dense peak at large sizes");
    archive.field("rows", rows, "Factor over rows m");
    archive.field("columns", columns, "Factor over columns n");
    archive.field("inner", inner, "Factor over the inner dimension k");
  }
};

/// As MatmulEfficiency, over the rows of one expert; columns and inner are those of single
/// products.
struct GroupedMatmulEfficiency {
  Sourced<double> base;
  SourcedCurve rows_per_expert;

  bool operator==(const GroupedMatmulEfficiency&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("base", base, "Fraction of the dense peak at large sizes");
    archive.field("rows_per_expert", rows_per_expert, "Factor over the mean rows of an expert");
  }
};

/// How much of the dense peak attention reaches: length(mean attended length) · head_size(D).
struct AttentionEfficiency {
  SourcedCurve length;
  SourcedCurve head_size;

  bool operator==(const AttentionEfficiency&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("length", length, "Fraction of the dense peak over the mean attended length");
    archive.field("head_size", head_size, "Factor over the head size");
  }
};

/// Attention by one library's kernels.
struct AttentionKernels {
  std::string library;
  AttentionEfficiency forward;
  AttentionEfficiency backward;

  bool operator==(const AttentionKernels&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("library", library, "Whose kernels they are");
    archive.field("forward", forward, "Causal attention, forward");
    archive.field("backward", backward, "Causal attention, backward");
  }
};

/// How often a point was measured and how much the repeats differ.
struct Sampling {
  std::optional<std::int64_t> samples;
  std::optional<double> spread_ratio;

  bool operator==(const Sampling&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("samples", samples, "Repeats of each point").at_least(1);
    archive.field("spread_ratio", spread_ratio,
                  "Median over points of (maximum − minimum) / median");
  }
};

/// The efficiency of one kernel as measured, in place of the curves of its class.
///
/// Values are fractions of the peak of the dtype for matrix, grouped and attention kernels, and of
/// the memory bandwidth for memory-bound ones; above one is possible where data stays in a cache.
/// Alone, such a kernel takes latency + flops / (peak · value), or latency + bytes / (hbm · value).
/// Axes are extents of the kernel's row in ir/kernel.h, or `bytes`, `flops`, `rows_per_expert`,
/// `mean_length`.
struct KernelEfficiency {
  Kernel kernel = Kernel::add;
  std::optional<DType> dtype;      ///< none: holds for every dtype
  std::optional<Seconds> latency;  ///< in place of the profile's
  std::vector<std::string> axes;
  Surface surface;
  Sampling sampling;
  Provenance from = {};

  bool operator==(const KernelEfficiency&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("kernel", kernel, "Name of the kernel");
    archive.field("dtype", dtype, "The dtype it holds for; all if left out");
    archive.field("latency", latency, "Time whatever the size, in place of the profile's");
    archive.field("axes", axes, "Extents, or bytes, flops, rows_per_expert, mean_length");
    sampling.describe(archive);
    from.describe(archive);
    archive.field("points", surface.points, "Rows [coordinate per axis …, fraction]");
  }
  void check(Reader& reader) const;
};

/// latency + bytes / rate(bytes).
struct RateCurve {
  Seconds latency;
  std::vector<std::pair<Bytes, BytesPerSecond>> points;
  Sampling sampling;
  Provenance from = {};

  bool operator==(const RateCurve&) const = default;

  /// The rate for messages of `bytes`.
  [[nodiscard]] BytesPerSecond at(double bytes) const;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("latency", latency, "Time whatever the size");
    sampling.describe(archive);
    from.describe(archive);
    archive.field("points", points, "Rows [message, rate], message ascending");
  }
  void check(Reader& reader) const;
};

/// One collective measured on groups of one size and scope.
///
/// Sizes are those of nccl-tests: all-gather the gathered bytes, reduce-scatter the input,
/// all-reduce the buffer, all-to-all what one rank sends; rates are bus bandwidth.
struct CollectiveEfficiency {
  Kernel kernel = Kernel::all_gather;
  Scope scope = Scope::node;
  std::int64_t ranks = 2;
  RateCurve rate;

  bool operator==(const CollectiveEfficiency&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("kernel", kernel, "The collective");
    archive.field("scope", scope, "How far apart the ranks were");
    archive.field("ranks", ranks, "Ranks of the group").at_least(2);
    rate.describe(archive);
  }
  void check(Reader& reader) const;
};

/// The position of `extent` in the row of `kernel`, if it is one of its extents.
std::optional<std::size_t> extent_position(Kernel kernel, std::string_view extent);

}  // namespace xt
