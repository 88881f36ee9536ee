#include "executor/weights/elements.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstring>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

template <typename Element>
void decode_as(const std::byte* stored, std::span<float> to) {
  for (float& value : to) {
    Element element;
    std::memcpy(&element, stored, sizeof(Element));
    value = static_cast<float>(element);
    stored += sizeof(Element);
  }
}

template <typename Element>
void encode_as(std::span<const float> elements, std::byte* to) {
  for (const float value : elements) {
    const auto element = static_cast<Element>(value);
    std::memcpy(to, &element, sizeof(Element));
    to += sizeof(Element);
  }
}

}  // namespace

bool is_decodable(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

void decode(std::span<const std::byte> stored, DType dtype, std::int64_t first,
            std::span<float> to) {
  XT_CHECK(is_decodable(dtype), name(dtype));
  const std::int64_t begin = first * width(dtype);
  const std::int64_t length = std::ssize(to) * width(dtype);
  XT_CHECK(first >= 0 && begin + length <= std::ssize(stored), begin, length, stored.size());
  const std::byte* from = stored.data() + begin;
  if (dtype == DType::fp32) return decode_as<float>(from, to);
  if (dtype == DType::bf16) return decode_as<c10::BFloat16>(from, to);
  decode_as<c10::Half>(from, to);
}

std::vector<std::byte> encode(std::span<const float> elements, DType dtype) {
  XT_CHECK(is_decodable(dtype), name(dtype));
  std::vector<std::byte> bytes(elements.size() * static_cast<std::size_t>(width(dtype)));
  if (dtype == DType::fp32) encode_as<float>(elements, bytes.data());
  if (dtype == DType::bf16) encode_as<c10::BFloat16>(elements, bytes.data());
  if (dtype == DType::fp16) encode_as<c10::Half>(elements, bytes.data());
  return bytes;
}

}  // namespace xt
