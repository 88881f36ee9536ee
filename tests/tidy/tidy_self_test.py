"""Shows that every house rule can fail, and that it lets a clean tree pass."""

import argparse
import sys
import tempfile
import unittest
from pathlib import Path

from tidy import check_format, check_headers, check_rules

EDGES = "```edges\ncostmodel/units:\ncostmodel/cost: units\ncostmodel/io: units\nplanner: costmodel/*\nexecutor: costmodel/*\n```\n"
HEADER = "#pragma once\n\n// What this is for.\n\nnamespace xt {{\n\n{}\n\n}}  // namespace xt\n"
CLEAN = HEADER.format("/// Twice `x`.\ninline int twice(int x) { return 2 * x; }")
COMPILER = "c++"


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("ARCHITECTURE.md", EDGES)
        self.write(".clang-format", "BasedOnStyle: Google\nColumnLimit: 100\n")
        self.write("costmodel/units/twice.h", CLEAN)

    def write(self, path: str, text: str):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def expect(self, message: str, path: str, text: str):
        """`text` at `path` breaks the rule that says `message`, and nothing else does."""
        self.write(path, text)
        found = [str(problem) for problem in check_rules(self.root)]
        self.assertEqual(len(found), 1, found)
        self.assertIn(message, found[0])

    def test_clean_tree_passes(self):
        self.assertEqual(check_rules(self.root), [])
        self.assertEqual(check_format(self.root), [])
        self.assertEqual(check_headers(self.root, COMPILER), [])

    def test_edge_that_is_not_allowed(self):
        include = '#include "costmodel/io/file.h"\n'
        self.write("costmodel/io/file.h", CLEAN)
        self.expect("costmodel/units may not use costmodel/io", "costmodel/units/a.cpp", include)

    def test_allowed_edges_pass(self):
        text = '#include "costmodel/units/twice.h"\n// Source: derived\n'
        self.write("costmodel/cost/a.cpp", text)
        self.write("planner/a.cpp", text)
        self.write("tests/a.cpp", '#include "planner/a.h"\n')
        self.assertEqual(check_rules(self.root), [])

    def test_module_without_a_line(self):
        include = '#include "costmodel/units/twice.h"\n'
        self.expect("has no line in the edges", "costmodel/other/a.cpp", include)

    def test_modules_that_use_each_other(self):
        edges = "```edges\ncostmodel/units: cost\ncostmodel/cost: units\n```\n"
        self.expect("use each other", "ARCHITECTURE.md", edges)

    def test_third_party_outside_its_owner(self):
        self.expect("belongs in costmodel/io", "planner/a.cpp", "#include <yaml-cpp/yaml.h>\n")

    def test_third_party_in_a_header(self):
        text = CLEAN.replace("namespace", "#include <nlohmann/json.hpp>\n\nnamespace", 1)
        self.expect("may not be in a header", "costmodel/io/a.h", text)

    def test_command_line_outside_main(self):
        self.write("planner/main.cpp", "#include <CLI/CLI.hpp>\n")
        self.expect("belongs in a main.cpp", "planner/a.cpp", "#include <CLI/CLI.hpp>\n")

    def test_cuda_outside_its_folder(self):
        self.expect("belongs in executor/cuda", "executor/a.cpp", "#include <cuda_runtime_api.h>\n")

    def test_whole_torch(self):
        self.expect("never included", "executor/a.cpp", "#include <torch/torch.h>\n")

    def test_own_header_is_not_first(self):
        text = '#include <string>\n#include "costmodel/units/twice.h"\n'
        self.expect("the first include is not", "costmodel/units/twice.cpp", text)

    def test_long_file(self):
        self.expect("401 lines", "costmodel/units/a.cpp", "\n" * 401)

    def test_name_of_a_file(self):
        self.expect("`string_utils` names a role", "planner/string_utils.cpp", "\n")

    def test_name_of_a_type(self):
        self.expect("`PlanManager` names a role", "planner/a.cpp", "class PlanManager {};\n")

    def test_forbidden_code(self):
        for code, message in (
            ("using namespace std;", "using namespace std"),
            ("void f() { try { } catch (...) { } }", "catch (...)"),
            ("void f() { std::exit(1); }", "`exit`"),
            ("int* f() { return new int; }", "raw `new`"),
            ("TEST(A, DISABLED_B) {}", "disabled test"),
            ("auto* f() { return getenv(x); }", "environment"),
            ("#include <fstream>", "touches files"),
            ("bool f() { return std::filesystem::exists(x); }", "touches files"),
            ("#include <random>", "randomness"),
            ("auto f() { return std::chrono::steady_clock::now(); }", "clock"),
            ("void f() { cudaFree(x); }", "CUDA or NCCL"),
            ("auto f() { return at::kCUDA; }", "CUDA or NCCL"),
            ("// TODO: later", "names its issue"),
        ):
            with self.subTest(code):
                self.expect(message, "planner/a.cpp", code + "\n")

    def test_words_in_comments_and_strings_are_free(self):
        self.write("planner/a.cpp", '// catch (...) and exit()\nauto f = "new X; exit(1)";\nstd::filesystem::path p;\n')
        self.write("planner/main.cpp", "int main() { try { } catch (...) { } }\n// TODO(#12)\n")
        self.assertEqual(check_rules(self.root), [])

    def test_header_without_guard(self):
        self.expect("`#pragma once`", "planner/a.h", "// What this is for.\n")

    def test_header_without_opening(self):
        self.expect("opens with a paragraph", "planner/a.h", "#pragma once\n\nnamespace xt {}\n")

    def test_formula_without_source(self):
        self.expect("names no `Source:`", "costmodel/cost/a.cpp", "\n")

    def test_missing_docstrings(self):
        for code in (
            "int f(int x);",
            "struct A {\n  int f();\n};",
            "template <typename T>\nrequires(sizeof(T) > 1) T f(T x) {\n  return x;\n}",
            "/// First.\nint f();\n\nint g();",
        ):
            with self.subTest(code):
                self.expect("has no `///`", "planner/a.h", HEADER.format(code))

    def test_docstrings_that_are_enough(self):
        code = (
            "struct A;\nusing B = A;\nenum class C { a };\ninline constexpr int d = f(1);\n\n"
            "/// Two of them.\nint f(int x);\nint f(double x);\n\n"
            "/// A type.\nstruct A {\n  int g();\n};\n\n"
            "template <>\nstruct S<int> {};\n\nA operator+(A a, A b);\n\n"
            "template <typename T>\nT M<T>::f() {\n  return {};\n}"
        )
        self.write("planner/a.h", HEADER.format(code))
        self.assertEqual(check_rules(self.root), [])

    def test_format(self):
        self.write("planner/a.cpp", "int  f( );\n")
        self.assertIn("run clang-format", str(check_format(self.root)[0]))

    def test_header_that_needs_another(self):
        self.write("planner/a.h", HEADER.format("/// Text.\nstd::string f();"))
        self.assertIn("does not compile alone", str(check_headers(self.root, COMPILER)[0]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default=COMPILER)
    arguments, rest = parser.parse_known_args()
    COMPILER = arguments.compiler
    unittest.main(argv=[sys.argv[0], *rest])
