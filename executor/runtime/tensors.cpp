#include "executor/runtime/tensors.h"

#include <ATen/ATen.h>

#include "costmodel/diagnostics/check.h"

namespace xt {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return at::kFloat;
    case DType::bf16:
      return at::kBFloat16;
    case DType::fp16:
      return at::kHalf;
    case DType::fp8:
      return at::kFloat8_e4m3fn;
    case DType::int64:
      return at::kLong;
    case DType::int32:
      return at::kInt;
    case DType::uint8:
      return at::kByte;
  }
  XT_CHECK(false);
}

BufferMemory::BufferMemory(const Schedule& schedule, Device& device)
    : schedule_(schedule), device_(device), memory_(schedule.buffers.size()) {
  places_.reserve(schedule.buffers.size());
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const auto id = static_cast<BufferId>(i);
    if (buffer.kind == BufferKind::view) {
      const Place& parent = places_[at(buffer.parent)];
      places_.push_back({parent.root, parent.offset_bytes + buffer.offset_bytes});
      continue;
    }
    places_.push_back({id, 0});
    if (buffer.kind != BufferKind::resident) continue;
    allocate(id, {});
    device_.clear(memory_[i].get(), buffer.space, buffer.bytes({}));
  }
}

void BufferMemory::allocate(BufferId id, const Bindings& bindings) {
  const Buffer& buffer = schedule_.buffer(id);
  memory_[at(id)] = device_.allocate(buffer, buffer.bytes(bindings));
}

void BufferMemory::release(BufferId id) { memory_[at(id)].clear(); }

at::Tensor BufferMemory::tensor(BufferId id, const Bindings& bindings) const {
  const Buffer& buffer = schedule_.buffer(id);
  const Place& place = places_[at(id)];
  auto* start = static_cast<std::byte*>(memory_[at(place.root)].get());
  if (start != nullptr) start += place.offset_bytes;
  const std::array<std::int64_t, 3> sizes{buffer.shape[0].value(bindings),
                                          buffer.shape[1].value(bindings),
                                          buffer.shape[2].value(bindings)};
  const c10::Device device = device_.place(buffer.space);
  const auto options = at::TensorOptions().dtype(scalar_type(buffer.dtype)).device(device);
  return at::for_blob(start, sizes).options(options).target_device(device).make_tensor();
}

}  // namespace xt
