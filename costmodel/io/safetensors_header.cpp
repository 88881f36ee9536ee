#include "costmodel/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/json.h"

namespace xt {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// Headers of published models take some hundred kB; a larger number is a damaged file.
constexpr std::uint64_t max_header_bytes = 100'000'000;

struct DTypeSpelling {
  std::string_view text;
  DType dtype;
};
constexpr std::array<DTypeSpelling, 7> spellings = {{{"F32", DType::fp32},
                                                     {"BF16", DType::bf16},
                                                     {"F16", DType::fp16},
                                                     {"F8_E4M3", DType::fp8},
                                                     {"I64", DType::int64},
                                                     {"I32", DType::int32},
                                                     {"U8", DType::uint8}}};

/// A damaged file; becomes an InputError with the path where it is known.
struct Damage {
  std::string message;
};

template <typename... Values>
[[noreturn]] void damaged(fmt::format_string<Values...> format, Values&&... values) {
  throw Damage{fmt::format(format, std::forward<Values>(values)...)};
}

DType dtype_spelt(const std::string& tensor, const std::string& text) {
  for (const DTypeSpelling& spelling : spellings)
    if (spelling.text == text) return spelling.dtype;
  damaged("tensor `{}` has elements of type `{}`, which is not known here", tensor, text);
}

/// The bytes that `shape` takes, unless no file is that large.
std::optional<std::int64_t> bytes_of(const std::vector<std::int64_t>& shape, DType dtype) {
  std::int64_t bytes = width(dtype);
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

StoredTensor parse_tensor(const std::string& name, const Json& entry,
                          std::span<const std::byte> data) {
  StoredTensor tensor{name, dtype_spelt(name, entry.at("dtype").as_text()), {}, {}};
  for (const Json& extent : entry.at("shape").items()) tensor.shape.push_back(extent.as_int());
  const Json::Array& offsets = entry.at("data_offsets").items();
  if (offsets.size() != 2) damaged("tensor `{}` has {} data offsets, not 2", name, offsets.size());
  const std::int64_t begin = offsets[0].as_int();
  const std::int64_t end = offsets[1].as_int();
  if (begin < 0 || end < begin || end > std::ssize(data))
    damaged("tensor `{}` lies at bytes {} to {} of {}", name, begin, end, data.size());
  if (bytes_of(tensor.shape, tensor.dtype) != end - begin)
    damaged("tensor `{}` of shape [{}] in {} does not take {} bytes", name,
            fmt::join(tensor.shape, ", "), xt::name(tensor.dtype), end - begin);
  tensor.bytes =
      data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return tensor;
}

std::uint64_t header_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length)) damaged("has {} bytes, too few for a header", bytes.size());
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > max_header_bytes || length > bytes.size() - sizeof(length))
    damaged("has a header of {} bytes in a file of {}", length, bytes.size());
  return length;
}

/// Tensors follow each other without gap or overlap up to the end of the file.
void check_positions(const std::vector<StoredTensor>& tensors, std::span<const std::byte> data) {
  const std::byte* end = data.data();
  for (const StoredTensor& tensor : tensors) {
    if (tensor.bytes.data() != end)
      damaged("tensor `{}` begins at byte {}, but the one before ends at {}", tensor.name,
              tensor.bytes.data() - data.data(), end - data.data());
    end += tensor.bytes.size();
  }
  if (end != data.data() + data.size())
    damaged("holds {} bytes after the last tensor", data.data() + data.size() - end);
}

std::vector<StoredTensor> parse(std::span<const std::byte> bytes) {
  const std::uint64_t length = header_length(bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const std::span<const std::byte> data = bytes.subspan(sizeof(length) + length);
  const Json header = parse_json(text);
  std::vector<StoredTensor> tensors;
  std::set<std::string_view> seen;
  for (const JsonMember& member : header.members()) {
    if (!seen.insert(member.key).second) damaged("describes tensor `{}` twice", member.key);
    if (member.key != "__metadata__")
      tensors.push_back(parse_tensor(member.key, member.value, data));
  }
  std::ranges::stable_sort(tensors, [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  check_positions(tensors, data);
  return tensors;
}

std::string header_text(std::span<const TensorSpec> tensors) {
  Json header = Json::object();
  header.add("__metadata__", Json::object({{"format", "pt"}}));
  std::int64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const auto* spelling = std::ranges::find(spellings, tensor.dtype, &DTypeSpelling::dtype);
    Json shape = Json::array();
    for (const std::int64_t extent : tensor.shape) shape.push_back(extent);
    const std::int64_t end = offset + tensor.bytes();
    header.add(tensor.name, Json::object({{"dtype", spelling->text},
                                          {"shape", std::move(shape)},
                                          {"data_offsets", Json::array({offset, end})}}));
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins aligned
  return text;
}

}  // namespace

std::int64_t TensorSpec::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

std::int64_t StoredTensor::elements() const { return std::ssize(bytes) / width(dtype); }

std::vector<StoredTensor> parse_safetensors(const std::string& path,
                                            std::span<const std::byte> bytes) {
  const auto refuse = [&](const std::string& message) {
    return InputError(std::vector{error_in(path, message, "is the download complete?")});
  };
  try {
    return parse(bytes);
  } catch (const Damage& damage) {
    throw refuse(damage.message);
  } catch (const JsonError& error) {
    throw refuse(
        fmt::format("has a header that is not that of a safetensors file: {}", error.what()));
  }
}

std::string safetensors_header(std::span<const TensorSpec> tensors) {
  const std::string text = header_text(tensors);
  const std::uint64_t length = text.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + text;
}

}  // namespace xt
