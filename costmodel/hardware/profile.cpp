#include "costmodel/hardware/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "costmodel/diagnostics/nearest.h"
#include "costmodel/document/shape.h"
#include "costmodel/document/writer.h"
#include "costmodel/units/normal.h"

namespace xt {
namespace {

// The archive that walks a profile and notes what says where it came from.
class ProvenanceArchive {
 public:
  template <typename T>
  WrittenField field(std::string_view name, T& member, std::string_view) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (name == "source") entries_.push_back({path_, {member}});
    } else if constexpr (std::is_same_v<T, Grade>) {
      entries_.back().from.grade = member;
    } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      if (name == "note") entries_.back().from.note = member;
    } else {
      visit(path_.empty() ? std::string(name) : path_ + "." + std::string(name), member);
    }
    return {};
  }

  [[nodiscard]] std::vector<ProvenanceEntry> take() { return std::move(entries_); }

 private:
  template <typename T>
  void visit(const std::string& path, T& value) {
    if constexpr (is_optional<T>) {
      if (value) visit(path, *value);
    } else if constexpr (is_list<T>) {
      for (std::size_t i = 0; i < value.size(); ++i)
        visit(fmt::format("{}[{}]", path, i), value[i]);
    } else if constexpr (!IsScalar<T> && !is_pair<T> && !is_named<T>) {
      const std::string outer = std::exchange(path_, path);
      value.describe(*this);
      path_ = outer;
    }
  }

  std::string path_;
  std::vector<ProvenanceEntry> entries_;
};

void check_sources(const Profile& profile, Reader& reader) {
  std::vector<std::string> known;
  for (const auto& [key, text] : profile.sources.entries) known.push_back(key);
  for (const auto& [path, from] : provenances(profile)) {
    if (!profile.sources.find(from.source))
      reader.problem(path + ".source", fmt::format("unknown source `{}`", from.source),
                     did_you_mean(from.source, known, "sources of this profile"));
    const bool needs_note = from.grade == Grade::derived || from.grade == Grade::estimate;
    if (needs_note && !from.note)
      reader.problem(path + ".grade",
                     fmt::format("a number graded `{}` has no note",
                                 grade_names[static_cast<std::size_t>(from.grade)]),
                     "say in `note` what it was computed from or what it rests on");
  }
}

void check_collectives(const Profile& profile, Reader& reader) {
  for (const Kernel kernel :
       {Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all})
    if (std::ranges::find(profile.collectives, kernel, &CollectiveEfficiency::kernel) ==
        profile.collectives.end())
      reader.problem("collectives", fmt::format("there is no curve for `{}`", name(kernel)));
}

void check_scales(const Profile& profile, Reader& reader) {
  for (const auto& [kernel, factor] : profile.scales.entries) {
    if (!kernel_named(kernel))
      reader.problem("scales." + kernel, fmt::format("unknown kernel `{}`", kernel),
                     did_you_mean(kernel, kernel_names, "known kernels"));
    if (factor <= 0)
      reader.problem("scales." + kernel, fmt::format("scale is {}, must be above 0", factor));
  }
}

// Capacities and rates that something is divided by; latencies and shares may be zero.
void check_positive(const Profile& profile, Reader& reader) {
  const auto above_zero = [&](std::string_view path, double value) {
    if (value <= 0) reader.problem(path, fmt::format("`{}` must be above 0", path));
  };
  above_zero("memory.value", static_cast<double>(profile.memory.value.value));
  above_zero("hbm.value", profile.hbm.value.value);
  above_zero("scale_up.bandwidth.value", profile.scale_up.bandwidth.value.value);
  above_zero("matmul.base.value", profile.matmul.base.value);
  above_zero("grouped_matmul.base.value", profile.grouped_matmul.base.value);
  if (profile.sustained_clock) above_zero("sustained_clock.value", profile.sustained_clock->value);
  if (profile.clock_spread) above_zero("clock_spread.value", profile.clock_spread->value);
  if (profile.vector) above_zero("vector.value", profile.vector->value.value);
  if (profile.scale_out) above_zero("scale_out.value", profile.scale_out->value.value);
  if (profile.host_memory_bandwidth)
    above_zero("host_memory_bandwidth.value", profile.host_memory_bandwidth->value.value);
  for (std::size_t i = 0; i < dtype_names.size(); ++i)
    if (profile.peaks.of[i])
      above_zero(fmt::format("peaks.{}.value", dtype_names[i]), profile.peaks.of[i]->value.value);
}

// FNV-1a over the whole document: keys, words and where lists and maps begin and end.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(0);
  }
  void add(const Node& node) {
    mix(static_cast<unsigned char>(node.kind));
    add(node.text);
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (node.kind == Node::Kind::map) add(node.keys[i].text);
      add(node.items[i]);
    }
    mix(1);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

void OverlapShares::check(Reader& reader) const {
  const auto within_one = [&](std::string_view path, double share) {
    if (share > 1) reader.problem(path, fmt::format("share is {}, must be at most 1", share));
  };
  within_one("all_gather.value", all_gather.value);
  within_one("reduce_scatter.value", reduce_scatter.value);
  within_one("all_reduce.value", all_reduce.value);
  within_one("all_to_all.value", all_to_all.value);
  within_one("swap_out.value", swap_out.value);
  within_one("swap_in.value", swap_in.value);
}

void Profile::check(Reader& reader) const {
  check_sources(*this, reader);
  check_collectives(*this, reader);
  check_scales(*this, reader);
  check_positive(*this, reader);
  if (reserved_over_allocated.value < 1)
    reader.problem("reserved_over_allocated.value",
                   fmt::format("ratio is {}, must be at least 1", reserved_over_allocated.value));
  if (reserved_over_allocated_p95 &&
      reserved_over_allocated_p95->value < reserved_over_allocated.value)
    reader.problem("reserved_over_allocated_p95.value",
                   fmt::format("ratio is {}, must be at least the median's {}",
                               reserved_over_allocated_p95->value, reserved_over_allocated.value));
  if (scale_up.domain_ranks < ranks_per_node())
    reader.problem("scale_up.domain_ranks",
                   fmt::format("a domain of {} ranks is smaller than a node of {}",
                               scale_up.domain_ranks, ranks_per_node()));
}

std::vector<ProvenanceEntry> provenances(const Profile& profile) {
  ProvenanceArchive archive;
  Profile copy = profile;  // `describe` takes its members by reference
  copy.describe(archive);
  return archive.take();
}

double scale(const Profile& profile, Kernel kernel) {
  const double* factor = profile.scales.find(name(kernel));
  return factor ? *factor : 1;
}

namespace {

// The product that `kernel` adds to what it writes, or `kernel` itself.
Kernel without_addition(Kernel kernel) {
  if (kernel == Kernel::matmul_input_backward_add) return Kernel::matmul_input_backward;
  if (kernel == Kernel::matmul_weight_backward_add) return Kernel::matmul_weight_backward;
  if (kernel == Kernel::grouped_matmul_weight_backward_add)
    return Kernel::grouped_matmul_weight_backward;
  return kernel;
}

}  // namespace

double slowest_clock(const Profile& profile, std::int64_t peers) {
  const double average = profile.sustained_clock ? profile.sustained_clock->value : 1;
  const double spread = profile.clock_spread ? profile.clock_spread->value : 0;
  return average * (1 - spread * largest_normal_of(peers));
}

// A product that adds is as fast as one that does not, where it was not measured.
const KernelEfficiency* measured(const Profile& profile, Kernel kernel, DType dtype) {
  const KernelEfficiency* of_any_dtype = nullptr;
  for (const KernelEfficiency& candidate : profile.kernels) {
    if (candidate.kernel != kernel) continue;
    if (candidate.dtype == dtype) return &candidate;
    if (!candidate.dtype) of_any_dtype = &candidate;
  }
  const Kernel plain = without_addition(kernel);
  return of_any_dtype != nullptr || plain == kernel ? of_any_dtype
                                                    : measured(profile, plain, dtype);
}

std::optional<Profile> with_attention(Profile profile, const std::string& library) {
  if (profile.attention_kernel == library) return profile;
  const auto found =
      std::ranges::find(profile.attention_kernels, library, &AttentionKernels::library);
  if (found == profile.attention_kernels.end()) return std::nullopt;
  profile.attention = found->forward;
  profile.attention_backward = found->backward;
  profile.attention_kernel = library;
  return profile;
}

std::vector<std::string> attention_libraries(const Profile& profile) {
  std::vector<std::string> libraries;
  if (profile.attention_kernel) libraries.push_back(*profile.attention_kernel);
  std::ranges::transform(profile.attention_kernels, std::back_inserter(libraries),
                         &AttentionKernels::library);
  return libraries;
}

std::string digest(const Profile& profile) {
  Hash hash;
  hash.add(write(profile));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace xt
