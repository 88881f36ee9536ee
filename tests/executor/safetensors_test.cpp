#include "executor/weights/safetensors.h"
#include "executor/weights/weights_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/weights/elements.h"
#include "tests/executor/temporary_folder.h"

namespace xt {
namespace {

using testing::HasSubstr;

/// A file with this header and `n_data` bytes of data.
std::string file_of(const std::string& header, std::size_t n_data) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(n_data, 'x');
}

std::string problem_of(const std::string& file) {
  try {
    parse_safetensors("w.safetensors", std::as_bytes(std::span(file)));
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

template <typename Action>
std::string problem(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

/// Makes `tensors` the content of the file at `path`.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const StoredTensor& tensor : tensors)
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  std::string content = safetensors_header(specs);
  for (const StoredTensor& tensor : tensors)
    content.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  write_file(path, content, Overwrite::allow);
}

std::vector<float> numbers(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = 0.5F * static_cast<float>(i) - 3;
  return values;
}

/// Writes one fp32 tensor `name` of two elements.
void write_pair(const std::filesystem::path& path, const std::string& name) {
  const std::vector<std::byte> bytes = encode(numbers(2), DType::fp32);
  write_safetensors(path, {{name, DType::fp32, {2}, bytes}});
}

TEST(Safetensors, ReadsBackWhatItWrites) {
  const TemporaryFolder folder;
  const std::vector<float> values = numbers(6);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const std::vector<std::byte> bytes = encode(values, dtype);
    const std::vector<StoredTensor> tensors = {
        {"a", dtype, {2, 3}, bytes},
        {"empty", dtype, {0, 5}, {}},
        {"scalar", DType::uint8, {}, std::span(bytes).first(1)}};
    const std::filesystem::path path = folder.path() / "w.safetensors";
    write_safetensors(path, tensors);
    const Weights weights(path);
    EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "empty", "scalar"}));
    const StoredTensor& a = weights.at("a", std::vector<std::int64_t>{2, 3});
    std::vector<float> read(4);
    decode(a.bytes, a.dtype, 2, read);
    EXPECT_EQ(read, (std::vector<float>{values.begin() + 2, values.end()}));
    EXPECT_EQ(weights.find("empty")->elements(), 0);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(WeightsFolder, IsWrittenInStretchesAndReadBackWhole) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "model";
  const std::vector<TensorSpec> specs = {
      {"a", DType::fp32, {2, 3}}, {"b", DType::fp32, {4}}, {"c", DType::fp32, {1, 1}}};
  for (const Bytes largest : {Bytes(1000), Bytes(19)}) {
    WeightsFolder writer(path, specs, largest), other(path, specs, largest);
    writer.begin();
    const std::vector<float> values = numbers(6);
    writer.write("a", 2, std::span(values).subspan(2));
    other.write("a", 0, std::span(values).first(2));
    other.write("b", 0, std::span(values).first(4));
    writer.write("c", 0, std::span(values).first(1));
    writer.flush();
    other.flush();
    writer.publish();
    const Weights read(path);
    EXPECT_EQ(read.names(), (std::vector<std::string>{"a", "b", "c"}));
    std::vector<float> whole(6);
    decode(read.find("a")->bytes, DType::fp32, 0, whole);
    EXPECT_EQ(whole, values);
  }
  // The second one is three numbered files and an index; the file of the first one is gone.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 4);
  EXPECT_TRUE(file_exists(path / "model-00002-of-00003.safetensors"));
  EXPECT_THROW(check_weights_folder(path, Overwrite::refuse), InputError);
}

TEST(WeightsFolder, TakesTheTokenizerAlong) {
  const TemporaryFolder folder;
  const std::filesystem::path from = folder.path() / "from", to = folder.path() / "to";
  create_folder(from);
  create_folder(to);
  for (const char* name : {"tokenizer.json", "merges.txt", "notes.txt"})
    write_file(from / name, name, Overwrite::refuse);
  write_file(to / "merges.txt", "its own", Overwrite::refuse);
  copy_tokenizer(from, to);
  copy_tokenizer(folder.path() / "nowhere", to);
  EXPECT_EQ(read_file(to / "tokenizer.json"), "tokenizer.json");
  EXPECT_EQ(read_file(to / "merges.txt"), "its own");
  EXPECT_FALSE(file_exists(to / "notes.txt"));
}

TEST(WeightsFolder, ChangesNothingUntilItIsPublished) {
  const TemporaryFolder folder;
  write_pair(folder.path() / "model.safetensors", "old");
  {
    WeightsFolder writer(folder.path(), {{"new", DType::bf16, {2}}});
    writer.begin();
    EXPECT_EQ(Weights(folder.path()).names(), (std::vector<std::string>{"old"}));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, ReadsAFileOfHuggingFace) {
  const Weights weights(std::filesystem::path(XT_ORACLE_DATA) / "qwen3_moe");
  const StoredTensor* embedding = weights.find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dtype, DType::bf16);
  EXPECT_EQ(embedding->shape, (std::vector<std::int64_t>{128, 64}));
}

TEST(Safetensors, RefusesDamagedFiles) {
  const auto with = [](const std::string& entry, std::size_t n_data) {
    return problem_of(file_of("{\"a\":" + entry + "}", n_data));
  };
  EXPECT_THAT(problem_of("abc"), HasSubstr("w.safetensors: error: has 3 bytes, too few"));
  EXPECT_THAT(problem_of(file_of("{}", 0).substr(0, 9)), HasSubstr("has a header of 2 bytes"));
  EXPECT_THAT(problem_of(std::string(8, '\xff')), HasSubstr("has a header of"));
  EXPECT_THAT(problem_of(file_of("not json", 0)), HasSubstr("not that of a safetensors file"));
  EXPECT_THAT(problem_of(file_of("[]", 0)), HasSubstr("not that of a safetensors file"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 4),
              HasSubstr("tensor `a` lies at bytes 0 to 8 of 4"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
              HasSubstr("tensor `a` of shape [3] in fp32 does not take 8 bytes"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0),
              HasSubstr("does not take 0 bytes"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8),
              HasSubstr("does not take 8 bytes"));
  EXPECT_THAT(with(R"({"dtype":"C64","shape":[1],"data_offsets":[0,8]})", 8),
              HasSubstr("elements of type `C64`"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})", 8),
              HasSubstr("lies at bytes 8 to 4"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8),
              HasSubstr("begins at byte 4, but the one before ends at 0"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 8),
              HasSubstr("holds 4 bytes after the last tensor"));
  EXPECT_THAT(with(R"({"dtype":"F32","data_offsets":[0,4]})", 4),
              HasSubstr("not that of a safetensors file"));
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_NE(problem_of(file_of("{\"a\":" + entry + ",\"a\":" + entry + "}", 4)), "none");
}

TEST(Weights, OfSeveralFilesFollowTheIndex) {
  const TemporaryFolder folder;
  write_pair(folder.path() / "model-1.safetensors", "a");
  write_pair(folder.path() / "model-2.safetensors", "b");
  std::ofstream(folder.path() / "model.safetensors.index.json")
      << R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})";
  EXPECT_EQ(Weights(folder.path()).names(), (std::vector<std::string>{"a", "b"}));
}

TEST(Weights, RefuseAnIndexThatDisagreesWithItsFiles) {
  const TemporaryFolder folder;
  write_pair(folder.path() / "model-1.safetensors", "a");
  const auto with = [&](const std::string& map) {
    std::ofstream(folder.path() / "model.safetensors.index.json") << map;
    return problem([&] { Weights{folder.path()}; });
  };
  EXPECT_THAT(with(R"({"weight_map": {"b": "model-1.safetensors"}})"),
              HasSubstr("says that `model-1.safetensors` holds `b`; it does not"));
  EXPECT_THAT(with(R"({"weight_map": {"a": "../model-1.safetensors"}})"),
              HasSubstr("is not a file beside it"));
  EXPECT_THAT(with(R"({"weight_map": {"a": "model-9.safetensors"}})"),
              HasSubstr("model-9.safetensors: error: cannot be read: No such file"));
  EXPECT_THAT(with("{}"), HasSubstr("is not an index of weights"));
}

TEST(Weights, SayWhichTensorIsMissingOrOfAnotherShape) {
  const TemporaryFolder folder;
  write_pair(folder.path() / "model.safetensors", "layers.0.weight");
  const Weights weights(folder.path());
  const std::vector<std::int64_t> shape = {3};
  EXPECT_THAT(problem([&] { (void)weights.at("layers.0.weigth", shape); }),
              HasSubstr("has no tensor `layers.0.weigth`"));
  EXPECT_THAT(problem([&] { (void)weights.at("layers.0.weight", shape); }),
              HasSubstr("of shape [2], the model needs [3]"));
}

TEST(Weights, RefuseAFolderWithoutAny) {
  const TemporaryFolder folder;
  EXPECT_THAT(problem([&] { Weights{folder.path()}; }), HasSubstr("holds neither"));
}

TEST(Elements, RoundToNearest) {
  const std::vector<float> values = {1.0F, 1.00390625F, 3.14159265F, -65504.0F};
  std::vector<float> read(4);
  decode(encode(values, DType::bf16), DType::bf16, 0, read);
  EXPECT_EQ(read[1], 1.0F);  // halfway between 1 and 1.0078125, to even
  EXPECT_EQ(read[2], 3.140625F);
  decode(encode(values, DType::fp16), DType::fp16, 0, read);
  EXPECT_EQ(read[1], 1.00390625F);
  EXPECT_EQ(read[3], -65504.0F);
}

}  // namespace
}  // namespace xt
