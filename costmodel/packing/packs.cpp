#include "costmodel/packing/packs.h"

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/packing/random.h"

namespace xt {
namespace {

void add(PackLayout& pack, const PackedSample& sample) {
  pack.samples.push_back(sample);
  pack.tokens += sample.tokens;
}

// Moves the shortest of the last `extra_buffer` samples into the pack while they fit.
void fill_gap(PackLayout& pack, std::vector<PackedSample>& remaining,
              const PackingOptions& options) {
  const auto n = std::min(std::ssize(remaining), static_cast<std::ptrdiff_t>(options.extra_buffer));
  const std::span<PackedSample> buffer(remaining.end() - n, remaining.end());
  std::vector<PackedSample*> by_length;
  by_length.reserve(buffer.size());
  for (PackedSample& sample : buffer) by_length.push_back(&sample);
  std::ranges::stable_sort(by_length, {}, &PackedSample::tokens);
  for (PackedSample* sample : by_length) {
    if (pack.tokens + sample->tokens > options.pack_length) break;
    add(pack, *sample);
    sample->tokens = 0;
  }
  const auto is_moved = [](const PackedSample& sample) { return sample.tokens == 0; };
  remaining.erase(std::remove_if(remaining.end() - n, remaining.end(), is_moved), remaining.end());
}

void pack_chunk(std::vector<PackedSample> remaining, const PackingOptions& options,
                std::vector<PackLayout>& packs) {
  PackLayout pack;
  while (!remaining.empty()) {
    const PackedSample sample = remaining.back();
    remaining.pop_back();
    if (pack.tokens + sample.tokens > options.pack_length) {
      fill_gap(pack, remaining, options);
      packs.push_back(std::exchange(pack, {}));
    }
    add(pack, sample);
  }
  if (!pack.samples.empty()) packs.push_back(std::move(pack));
}

std::vector<PackLayout> soft_packs(std::span<const std::int64_t> lengths,
                                   std::span<const std::uint32_t> order,
                                   const PackingOptions& options) {
  std::vector<PackLayout> packs;
  const auto chunk = static_cast<std::size_t>(options.chunk);
  for (; !order.empty(); order = order.subspan(std::min(chunk, order.size()))) {
    std::vector<PackedSample> samples;
    for (const std::uint32_t sample : order.first(std::min(chunk, order.size())))
      samples.push_back({sample, 0, std::min(lengths[sample], options.pack_length)});
    pack_chunk(std::move(samples), options, packs);
  }
  return packs;
}

std::vector<PackLayout> hard_packs(std::span<const std::int64_t> lengths,
                                   std::span<const std::uint32_t> order,
                                   const PackingOptions& options) {
  std::vector<PackLayout> packs;
  PackLayout pack;
  for (const std::uint32_t sample : order) {
    std::int64_t first = 0;
    while (first < lengths[sample]) {
      const std::int64_t tokens =
          std::min(lengths[sample] - first, options.pack_length - pack.tokens);
      add(pack, {sample, first, tokens});
      first += tokens;
      if (pack.tokens == options.pack_length) packs.push_back(std::exchange(pack, {}));
    }
  }
  return packs;
}

std::int64_t blocks_of_128(std::int64_t tokens) {
  const std::int64_t whole = tokens / 128;
  const std::int64_t rest = tokens % 128;
  const bool is_up = rest > 64 || (rest == 64 && whole % 2 == 1);
  return whole + (is_up ? 1 : 0);
}

}  // namespace

std::int64_t PackLayout::attention_cost() const {
  std::int64_t sum = 0;
  for (const PackedSample& sample : samples) {
    const std::int64_t blocks = blocks_of_128(sample.tokens);
    sum += blocks * blocks;
  }
  return sum;
}

std::int64_t PackLayout::sum_squared_lengths() const {
  std::int64_t sum = 0;
  for (const PackedSample& sample : samples) sum += sample.tokens * sample.tokens;
  return sum;
}

std::int64_t PackLayout::longest_sample() const {
  std::int64_t longest = 0;
  for (const PackedSample& sample : samples) longest = std::max(longest, sample.tokens);
  return longest;
}

std::vector<PackLayout> pack_samples(std::span<const std::int64_t> lengths,
                                     const PackingOptions& options) {
  XT_CHECK(options.pack_length >= 1, options.pack_length);
  XT_CHECK(options.chunk >= 1 && options.extra_buffer >= 0, options.chunk, options.extra_buffer);
  XT_CHECK(std::ranges::all_of(lengths, [](std::int64_t length) { return length >= 1; }));
  Random random(options.seed, Purpose::samples);
  const std::vector<std::uint32_t> order = shuffled(lengths.size(), random);
  switch (options.level) {
    case PackLevel::soft:
      return soft_packs(lengths, order, options);
    case PackLevel::hard:
      return hard_packs(lengths, order, options);
  }
  return {};
}

}  // namespace xt
