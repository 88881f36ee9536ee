#include "costmodel/io/files.h"

#include <gtest/gtest.h>

#include <string>

#include "costmodel/diagnostics/diagnostic.h"

namespace xt {
namespace {

/// A folder of its own for each test, removed afterwards.
class Files : public testing::Test {
 protected:
  Files() { create_folder(folder_); }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("xt_files_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

template <typename Action>
std::string problem_of(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.problems().at(0).message + "; " + error.problems().at(0).hint;
  }
  return "";
}

TEST_F(Files, ReadsBackWhatItWrote) {
  const std::string text("a\0b\n", 4);
  write_file(folder_ / "a.bin", text, Overwrite::refuse);
  EXPECT_EQ(read_file(folder_ / "a.bin"), text);
  EXPECT_EQ(files_in(folder_, ".bin").size(), 1U) << "a temporary file was left behind";
}

TEST_F(Files, OverwritesOnlyWhenAllowed) {
  write_file(folder_ / "a", "old", Overwrite::refuse);
  EXPECT_EQ(problem_of([&] { write_file(folder_ / "a", "new", Overwrite::refuse); }),
            "already exists; pass `--force` to overwrite it");
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  write_file(folder_ / "a", "new", Overwrite::allow);
  EXPECT_EQ(read_file(folder_ / "a"), "new");
}

TEST_F(Files, NamesTheNearestFileWhenOneIsMissing) {
  write_file(folder_ / "llama3_8b.yaml", "", Overwrite::refuse);
  EXPECT_EQ(problem_of([&] { read_file(folder_ / "lama3_8b.yaml"); }),
            "no such file; did you mean `" + (folder_ / "llama3_8b.yaml").string() + "`?");
  EXPECT_EQ(problem_of([&] { read_file(folder_ / "none" / "a"); }),
            "no such file; there is no folder `" + (folder_ / "none").string() + "`");
  EXPECT_EQ(problem_of([&] { read_file(folder_); }), "is a folder, expected a file; ");
}

TEST_F(Files, ListsAFolderInOrder) {
  for (const std::string name : {"b.yaml", "a.yaml", "c.json"})
    write_file(folder_ / name, "", Overwrite::refuse);
  const auto paths = files_in(folder_, ".yaml");
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].filename(), "a.yaml");
}

TEST_F(Files, TellsFilesFromFoldersAndNothing) {
  write_file(folder_ / "a", "", Overwrite::refuse);
  EXPECT_TRUE(file_exists(folder_ / "a"));
  EXPECT_FALSE(file_exists(folder_));
  EXPECT_FALSE(file_exists(folder_ / "b"));
}

TEST_F(Files, HasEachLineOnDiskWhenWriteReturns) {
  LineFile file(folder_ / "log", Overwrite::refuse);
  file.write("one");
  EXPECT_EQ(read_file(folder_ / "log"), "one\n");
  file.write("two");
  EXPECT_EQ(read_file(folder_ / "log"), "one\ntwo\n");
}

TEST_F(Files, RefusesToMakeAFolderWhereAFileIs) {
  write_file(folder_ / "a", "", Overwrite::refuse);
  EXPECT_EQ(problem_of([&] { create_folder(folder_ / "a"); }), "is a file, expected a folder; ");
  EXPECT_EQ(problem_of([&] { create_folder(folder_ / "a" / "b" / "c"); }),
            "is a file, expected a folder; ");
}

}  // namespace
}  // namespace xt
