"""scripts/pretokenise.py: files that both programs read, documents as they were, wrong input refused.
Called with NAME=PROGRAM of xt-plan and xt-run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "pretokenise.py"
PROGRAMS = {}
TEXTS = ["one document\nof two lines\n\n", "another: größer\n\n\n", "the last"]


def train_tokenizer(path, vocabulary, special=("<|end|>",)):
    """A byte-level BPE, whose tokens join to the text they came from."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [(ROOT / "README.md").read_text()],
        trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(special), initial_alphabet=alphabet),
    )
    tokenizer.save(str(path))
    return tokenizer


def read_indexed(prefix):
    """The documents of PREFIX.bin by PREFIX.idx, read as Megatron-LM describes the format."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0" and index[9:17] == (1).to_bytes(8, "little")
    dtype = {8: numpy.uint16, 4: numpy.int32}[index[17]]
    n, n_ends = numpy.frombuffer(index, numpy.int64, 2, 18)
    lengths = numpy.frombuffer(index, numpy.int32, n, 34)
    pointers = numpy.frombuffer(index, numpy.int64, n, 34 + 4 * n)
    ends = numpy.frombuffer(index, numpy.int64, n_ends, 34 + 12 * n)
    assert list(ends) == list(range(n + 1)) and len(index) == 34 + 12 * n + 8 * n_ends
    tokens = pathlib.Path(f"{prefix}.bin").read_bytes()
    return [list(numpy.frombuffer(tokens, dtype, length, first))
            for length, first in zip(lengths, pointers)]


class Pretokenise(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tokenizer = train_tokenizer(self.folder / "tokenizer.json", 400)
        self.out = self.folder / "out"

    def run_script(self, *arguments):
        return subprocess.run(
            [sys.executable, str(SCRIPT), "--tokenizer", str(self.folder), "--out", str(self.out),
             *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def texts(self):
        return [self.tokenizer.decode(document) for document in read_indexed(self.out)]

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_documents_of_text_end_after_blank_lines_and_come_back_as_they_were(self):
        result = self.run_script(self.write("a.txt", "".join(TEXTS)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.texts(), TEXTS)
        self.assertIn("3 documents", result.stdout)

    def test_lines_of_jsonl_and_files_of_a_folder_are_documents(self):
        lines = "".join(json.dumps({"body": text}) + "\n" for text in TEXTS)
        self.write("f/a.jsonl", lines)
        self.write("f/b.md", "".join(TEXTS))
        self.write("f/c", b"zero\0byte")
        self.write("f/.hidden", "hidden")
        result = self.run_script("--key", "body", self.folder / "f")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.texts(), [*TEXTS, "".join(TEXTS)])

    def test_each_document_ends_with_the_token_asked_for(self):
        self.assertEqual(self.run_script("--end", "<|end|>", self.write("a", "x\n\ny")).returncode, 0)
        end = self.tokenizer.token_to_id("<|end|>")
        self.assertEqual([document[-1] for document in read_indexed(self.out)], [end, end])

    def test_large_vocabularies_take_four_bytes(self):
        self.tokenizer.add_tokens([f"<{i}>" for i in range(66000)])
        self.tokenizer.save(str(self.folder / "tokenizer.json"))
        self.assertEqual(self.run_script(self.write("a", "x <65999>")).returncode, 0)
        self.assertEqual(self.texts(), ["x <65999>"])
        self.assertGreater(max(read_indexed(self.out)[0]), 65535)

    def test_both_programs_read_what_it_wrote(self):
        train_tokenizer(self.folder / "tokenizer.json", 256, special=())  # as many as tiny_moe has
        text = "\n\n".join(f"paragraph {i} " + "word " * i for i in range(200))
        self.assertEqual(self.run_script(self.write("a", text)).returncode, 0)
        documents = read_indexed(self.out)
        plan = self.folder / "plan"
        flags = ["--model", "tiny_moe", "--machine", "h100_sxm", "--devices", "2", "--pack-length", "256",
                 "--sample-lengths", f"{self.out}.idx", "--out", plan, "--pack-level", "soft"]
        self.check("xt-plan", "schedule", *flags)
        answer = self.check("xt-run", "train", plan, "--data", f"{self.out}.bin", "--steps", "2", "--dry-run")
        n_tokens = sum(map(len, documents))
        self.assertIn(f"{len(documents)} documents of {n_tokens} tokens", answer)
        self.assertIn("attention of the most loaded rank", answer)

    def check(self, program, *arguments):
        result = subprocess.run([PROGRAMS[program], *map(str, arguments)], capture_output=True, text=True,
                                timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, reason, *arguments):
        result = self.run_script(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(reason, result.stderr)
        left = [path.name for path in self.folder.iterdir() if path.name.startswith("out")]
        self.assertEqual(left, [])

    def test_wrong_input_is_refused_with_its_place_and_leaves_nothing(self):
        self.refused("a.jsonl:2:6: error:", self.write("a.jsonl", '{"text": "x"}\n{"a" 1}\n'))
        self.refused("b.jsonl:1: error: has no text under `text`", self.write("b.jsonl", '{"a": 1}\n'))
        self.refused("c: error: is not UTF-8", self.write("c", b"\xff\xfe"))
        self.refused("none: error: cannot be read", self.folder / "none")
        self.refused("holds no text", self.write("empty", ""))
        self.refused("`<no>` is no token", "--end", "<no>", self.write("d", "x"))
        self.write("tokenizer.json", "{}")
        self.refused("is no tokenizer", self.write("e", "x"))

    def test_nothing_is_replaced_unless_forced(self):
        first = self.write("a", "first")
        self.assertEqual(self.run_script(first).returncode, 0)
        result = self.run_script(self.write("b", "second"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("exists already", result.stderr)
        self.assertEqual(self.texts(), ["first"])
        self.assertEqual(self.run_script("--force", self.folder / "b").returncode, 0)
        self.assertEqual(self.texts(), ["second"])


if __name__ == "__main__":
    PROGRAMS.update(argument.split("=", 1) for argument in sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
