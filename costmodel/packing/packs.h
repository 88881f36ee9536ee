#pragma once

// Which samples go into which pack, from their lengths alone. Used to price a training run before
// it has data and to pack the data when it has; knows no token, no rank and no time.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace xt {

/// How packs are filled: `soft` keeps samples whole and leaves gaps, `hard` cuts samples where a
/// pack ends.
///
/// Source:  XTuner V1, DataloaderConfig.pack_level
enum class PackLevel : std::uint8_t { soft, hard };

inline constexpr std::array<std::string_view, 2> pack_level_names = {"soft", "hard"};

/// The names by enumerator, for files and flags.
constexpr const auto& enum_names(PackLevel) { return pack_level_names; }

/// A stretch of a sample that stands in a pack; attention stays inside it.
///
/// Units:   first and tokens count tokens; sample is a position in the lengths that were packed
struct PackedSample {
  std::uint32_t sample = 0;
  std::int64_t first = 0;
  std::int64_t tokens = 0;

  bool operator==(const PackedSample&) const = default;
};

/// What one pack holds, in its order.
struct PackLayout {
  std::vector<PackedSample> samples;
  std::int64_t tokens = 0;  ///< of all samples

  bool operator==(const PackLayout&) const = default;

  /// Σ round(tokens / 128)² over the samples, halves rounded to even: what packs are compared by.
  /// A sample of up to 64 tokens counts nothing.
  ///
  /// Source:  XTuner V1, datasets/utils.py, proxy_attn_flops with text weight 1
  [[nodiscard]] std::int64_t attention_cost() const;
  /// Σ tokens² over the samples: what causal attention costs, but for a factor.
  [[nodiscard]] std::int64_t sum_squared_lengths() const;
  /// Tokens of the longest sample.
  [[nodiscard]] std::int64_t longest_sample() const;
};

/// How samples are packed.
///
/// Units:   pack_length in tokens; chunk and extra_buffer in samples
/// Assumes: pack_length ≥ 1, chunk ≥ 1, extra_buffer ≥ 0
/// Source:  defaults of XTuner V1, DataloaderConfig
struct PackingOptions {
  std::int64_t pack_length = 0;
  PackLevel level = PackLevel::soft;
  std::uint64_t seed = 0;
  std::int64_t chunk = 10'000;      ///< samples packed without regard to others; soft only
  std::int64_t extra_buffer = 100;  ///< samples looked at to fill a gap; soft only, 0 fills none
};

/// The packs of samples of these lengths, after a shuffle that the seed decides.
///
/// Soft: the shuffled samples are cut into chunks, each packed on its own. Samples are taken from a
/// chunk's end until one does not fit. The gap is then filled with the shortest of the chunk's last
/// `extra_buffer` samples, shortest first, while they fit, and the one that did not fit opens the
/// next pack. Every sample is in exactly one pack; one longer than a pack loses its end. A chunk's
/// last pack is left as it is, so it may be short.
///
/// Hard: the shuffled samples are put one after the other and cut every `pack_length` tokens. A
/// sample across a cut becomes a piece in each pack; tokens after the last full pack are dropped.
///
/// Units:   lengths in tokens
/// Assumes: lengths are 1 or more. Of samples equally short, the one nearer to the chunk's front
///          fills a gap first; XTuner V1 leaves that open
/// Source:  XTuner V1, datasets/packing.py, ExpandSoftPackDataset and HardPackDataset
std::vector<PackLayout> pack_samples(std::span<const std::int64_t> lengths,
                                     const PackingOptions& options);

}  // namespace xt
