#pragma once

// What one machine type can do: rates, capacities, latencies and efficiency curves, every number
// with its source and a grade. A profile is data from a file; it knows no model and no strategy,
// and no number of a machine stands anywhere else. Rates and capacities are of one rank.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/document/node.h"
#include "costmodel/hardware/efficiency.h"
#include "costmodel/hardware/sourced.h"
#include "costmodel/ir/kernel.h"
#include "costmodel/units/dtype.h"
#include "costmodel/units/quantity.h"

namespace xt {

inline constexpr std::array<std::string_view, 1> profile_schemas = {"xt.profile/1"};

/// Who runs a compute op: a device that is handed it, or the issuing host thread itself.
enum class ComputeIssue : std::uint8_t { asynchronous, inlined };

inline constexpr std::array<std::string_view, 2> compute_issue_names = {"asynchronous", "inline"};

/// The spellings of a way to issue.
constexpr const auto& enum_names(ComputeIssue) { return compute_issue_names; }

/// Dense peaks by dtype; none where the machine has no such products.
struct Peaks {
  std::array<std::optional<Sourced<FlopsPerSecond>>, dtype_names.size()> of{};

  bool operator==(const Peaks&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp8})
      archive.field(name(dtype), of[static_cast<std::size_t>(dtype)],
                    "Dense peak of matrix products of one rank");
  }
};

/// Ranks joined by the fast network, and what one of them can send over it in one direction.
struct ScaleUp {
  Sourced<BytesPerSecond> bandwidth;
  std::int64_t domain_ranks = 1;

  bool operator==(const ScaleUp&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("bandwidth", bandwidth, "Of one rank in one direction");
    archive.field("domain_ranks", domain_ranks, "Ranks that it joins").at_least(1);
  }
};

/// Host time to hand one op to the device, by kind of op.
struct LaunchCosts {
  Sourced<Seconds> kernel;
  Sourced<Seconds> collective;
  Sourced<Seconds> copy;
  Sourced<Seconds> synchronize;
  std::optional<Sourced<Seconds>> counts = std::nullopt;  ///< none: as `synchronize`

  bool operator==(const LaunchCosts&) const = default;

  /// What an op takes that holds the host, and waits for rows' counts or for something else.
  const Sourced<Seconds>& wait(Kernel op) const {
    return op == Kernel::bind_rows && counts ? *counts : synchronize;
  }

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("kernel", kernel, "To issue a compute op");
    archive.field("collective", collective, "To issue a collective");
    archive.field("copy", copy, "To issue a copy");
    archive.field("synchronize", synchronize, "To wait for a lane and read a value back");
    archive.field("counts", counts,
                  "To wait for counts of rows and issue what they size; none: as synchronize");
  }
};

/// The share of the compute resources that traffic holds while it runs, above 0 up to 1, and how
/// often a byte between ranks passes device memory, which holds a share of its own by its rate.
struct OverlapShares {
  Sourced<double> all_gather;
  Sourced<double> reduce_scatter;
  Sourced<double> all_reduce;
  Sourced<double> all_to_all;
  Sourced<double> swap_out;
  Sourced<double> swap_in;
  std::optional<Sourced<double>> memory_passes;  ///< none: the shares are of all that is lost

  bool operator==(const OverlapShares&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    constexpr std::string_view doc = "Share of the compute resources held while it runs";
    archive.field("all_gather", all_gather, doc);
    archive.field("reduce_scatter", reduce_scatter, doc);
    archive.field("all_reduce", all_reduce, doc);
    archive.field("all_to_all", all_to_all, doc);
    archive.field("swap_out", swap_out, doc);
    archive.field("swap_in", swap_in, doc);
    archive.field("memory_passes", memory_passes,
                  "Passes over device memory of a byte between ranks; none: shares have them");
  }
  void check(Reader& reader) const;
};

/// Copies between device and host memory, by direction.
struct Copies {
  RateCurve to_host;
  RateCurve to_device;

  bool operator==(const Copies&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("to_host", to_host, "From device to pinned host memory");
    archive.field("to_device", to_device, "From pinned host to device memory");
  }
};

/// One machine type, as its file describes it.
struct Profile {
  std::string schema = std::string(profile_schemas.back());
  std::string name;
  std::string title;
  Named<std::string> sources;
  std::int64_t ranks_per_device = 1;
  std::int64_t devices_per_node = 1;
  ComputeIssue compute_issue = ComputeIssue::asynchronous;

  Sourced<Bytes> memory;
  Sourced<Bytes> host_memory;
  Sourced<double> reserved_over_allocated;
  std::optional<Sourced<double>> reserved_over_allocated_p95;  ///< none: as the median
  std::optional<Sourced<Bytes>> device_context;                ///< none: nothing
  std::optional<Sourced<Bytes>> communicator_memory;           ///< none: nothing
  std::optional<Sourced<Bytes>> all_to_all_memory;             ///< none: nothing
  std::optional<Sourced<Bytes>> all_to_all_memory_over_nodes;  ///< none: as inside a node
  Peaks peaks;
  std::optional<Sourced<FlopsPerSecond>> vector;
  Sourced<BytesPerSecond> hbm;
  std::optional<Sourced<BytesPerSecond>> host_memory_bandwidth;
  ScaleUp scale_up;
  std::optional<Sourced<BytesPerSecond>> scale_out;

  LaunchCosts launch;
  Sourced<Seconds> latency;
  /// What clocks under a training's load leave of rates that products reach in short runs.
  std::optional<Sourced<double>> sustained_clock;
  /// Standard deviation of that clock between devices of one kind, as a share of it.
  std::optional<Sourced<double>> clock_spread;
  MatmulEfficiency matmul;
  GroupedMatmulEfficiency grouped_matmul;
  AttentionEfficiency attention;
  AttentionEfficiency attention_backward;
  std::optional<std::string> attention_kernel;      ///< whose those are
  std::vector<AttentionKernels> attention_kernels;  ///< of other libraries
  SourcedCurve memory_bound;
  std::vector<KernelEfficiency> kernels;
  std::vector<CollectiveEfficiency> collectives;
  Copies copies;
  OverlapShares overlap;
  Named<double> scales;  ///< by kernel name, from calibration

  bool operator==(const Profile&) const = default;

  [[nodiscard]] std::int64_t ranks_per_node() const { return ranks_per_device * devices_per_node; }

  /// The dense peak of one rank for products of `dtype`, if the machine has such products.
  [[nodiscard]] const std::optional<Sourced<FlopsPerSecond>>& peak(DType dtype) const {
    return peaks.of[static_cast<std::size_t>(dtype)];
  }

  template <typename Archive>
  void describe(Archive& archive) {
    describe_machine(archive);
    describe_efficiency(archive);
  }
  void check(Reader& reader) const;

 private:
  template <typename Archive>
  void describe_machine(Archive& archive);
  template <typename Archive>
  void describe_efficiency(Archive& archive);
};

template <typename Archive>
void Profile::describe_machine(Archive& archive) {
  archive.field("schema", schema, "Format of this file").one_of(profile_schemas);
  archive.field("name", name, "Name on the command line, and of the file");
  archive.field("title", title, "Name for people");
  archive.field("sources", sources, "What each source is: who, what, when");
  archive.field("ranks_per_device", ranks_per_device, "Ranks in one package").at_least(1);
  archive.field("devices_per_node", devices_per_node, "Packages in one node").at_least(1);
  archive.field("compute_issue", compute_issue, "Who runs a compute op");
  archive.field("memory", memory, "Device memory of a rank, as the driver reports it");
  archive.field("host_memory", host_memory, "Host memory of a rank");
  archive.field("reserved_over_allocated", reserved_over_allocated,
                "What the allocator holds over what is allocated, at the peak: median");
  archive.field("reserved_over_allocated_p95", reserved_over_allocated_p95,
                "The same of the run in twenty that holds most; none: as the median");
  archive.field("device_context", device_context,
                "What driver and framework take of a rank's memory beside the allocator");
  archive.field("communicator_memory", communicator_memory,
                "What a communicator of several ranks takes of a rank's memory");
  archive.field("all_to_all_memory", all_to_all_memory,
                "What a communicator takes more once it has run an all-to-all");
  archive.field("all_to_all_memory_over_nodes", all_to_all_memory_over_nodes,
                "The same where its ranks are on several nodes; none: as inside one");
  archive.field("peaks", peaks, "Dense peaks of matrix products by dtype");
  archive.field("vector", vector, "Rate of the element-wise units");
  archive.field("hbm", hbm, "Bandwidth of device memory");
  archive.field("host_memory_bandwidth", host_memory_bandwidth, "A rank's part of the host's");
  archive.field("scale_up", scale_up, "The fast network between devices");
  archive.field("scale_out", scale_out, "Of one rank in one direction; none: one domain only");
}

template <typename Archive>
void Profile::describe_efficiency(Archive& archive) {
  archive.field("launch", launch, "Host time to issue an op");
  archive.field("latency", latency, "Time of a kernel whatever its size");
  archive.field("sustained_clock", sustained_clock,
                "Clock of products under a training's load over that of short runs");
  archive.field("clock_spread", clock_spread,
                "Standard deviation of that clock between devices, as a share of it");
  archive.field("matmul", matmul, "Matrix products");
  archive.field("grouped_matmul", grouped_matmul, "Matrix products grouped by expert");
  archive.field("attention", attention, "Causal attention, forward");
  archive.field("attention_backward", attention_backward, "Causal attention, backward");
  archive.field("attention_kernel", attention_kernel, "Library of that attention");
  archive.field("attention_kernels", attention_kernels, "Attention of other libraries").optional();
  archive.field("memory_bound", memory_bound, "Fraction of hbm over bytes moved");
  archive.field("kernels", kernels, "Kernels with their own measurements").optional();
  archive.field("collectives", collectives, "Bus bandwidth by collective, scope and ranks");
  archive.field("copies", copies, "Copies between device and host");
  archive.field("overlap", overlap, "What traffic takes from compute");
  archive.field("scales", scales, "Factors on the time of kernels, from calibration").optional();
}

/// One number, curve or table of a profile and where it says it came from.
struct ProvenanceEntry {
  std::string path;
  Provenance from;
};

/// Every place in `profile` that holds a number from outside, in the order of the file.
std::vector<ProvenanceEntry> provenances(const Profile& profile);

/// The calibrated factor on the time of `kernel`; one where nothing was fitted.
double scale(const Profile& profile, Kernel kernel);

/// The clock of products under load, over that of short runs, of the slowest of `peers` devices:
/// the others wait for it in every step. One where the profile states neither.
///
///   sustained_clock · (1 − clock_spread · largest of `peers` normal draws)
///
/// Assumes: short runs were taken on an average device
/// Source:  derived; the largest of draws as in costmodel/units/normal.h
double slowest_clock(const Profile& profile, std::int64_t peers);

/// The measured efficiency of `kernel` in `dtype`, or null.
const KernelEfficiency* measured(const Profile& profile, Kernel kernel, DType dtype);

/// `profile` with the attention of `library` in place of its own; none where it has no such curves.
std::optional<Profile> with_attention(Profile profile, const std::string& library);

/// The names that with_attention() knows.
std::vector<std::string> attention_libraries(const Profile& profile);

/// A digest of everything in `profile` as 16 hexadecimal digits.
std::string digest(const Profile& profile);

}  // namespace xt
