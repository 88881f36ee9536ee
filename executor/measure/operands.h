#pragma once

// Operands for one kernel call, from its row in ir/kernel.h: which tensors, how large, and what in
// them makes sense. Numbers lie in memory that is walked through in a ring, so that a call finds
// the caches as it would in the middle of a training step.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "costmodel/ir/work.h"

namespace xt {

/// One operand of a call: how many elements of what.
struct Operand {
  std::string_view role;
  std::int64_t elements = 0;
  at::ScalarType type = at::kFloat;
  bool is_in_place = false;
  at::Tensor indices = {};  ///< the operand itself, where not every number would do

  [[nodiscard]] std::int64_t bytes() const;
};

/// The operands of a kernel, in the roles of its row.
struct Operands {
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
};

/// The operands of `work`, with indices drawn from `random`.
///
/// Assumes: `work` computes, and all its extents are numbers
Operands operands_of(const Work& work, std::mt19937_64& random);

/// Random numbers to read and memory to write, of `bytes` each, on a device. Calls take
/// their operands one behind the other and start again after `ring_bytes`, or after one call that
/// needs more.
class Ring {
 public:
  Ring(std::int64_t bytes, std::int64_t ring_bytes, std::uint64_t seed,
       c10::Device place = c10::kCPU);

  [[nodiscard]] c10::Device place() const { return read_.memory.device(); }

  /// The places of one call.
  struct Call {
    std::vector<void*> inputs;
    std::vector<void*> outputs;
  };

  /// The places of the next call.
  Call next(const Operands& operands);

  /// Makes what in-place operands find in the ring fresh random numbers.
  void refresh(const Operands& operands);

 private:
  struct Part {
    at::Tensor memory;
    std::int64_t at = 0;
  };

  static std::vector<void*> take(Part& part, const std::vector<Operand>& operands,
                                 std::int64_t ring_bytes);

  std::int64_t ring_bytes_;
  Part read_;
  Part written_;
};

/// Tensors at the places of a call on `device`, made as the interpreter of schedules makes them.
std::vector<at::Tensor> tensors_at(const std::vector<Operand>& operands,
                                   const std::vector<void*>& places, c10::Device device);

/// `operands` with what are indices on `device`.
Operands on_device(Operands operands, c10::Device device);

}  // namespace xt
