"""Turns text into tokens that xt-run trains on and xt-plan reads lengths from: PREFIX.bin and
PREFIX.idx, as Megatron-LM's preprocessing writes them. Run by scripts/pretokenise.sh."""

import argparse
import array
import contextlib
import json
import os
import pathlib
import struct
import sys

from tokenizers import Tokenizer

BATCH = 1000  # documents that are tokenised at once, on all cores
# Type codes of Megatron-LM's megatron/core/datasets/indexed_dataset.py.
WIDTHS = {2: ("H", 8), 4: ("i", 4)}


class Problem(Exception):
    """What is wrong with the input: where, what, and what to do."""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/pretokenise.sh", description="Tokenises text by a Hugging Face tokenizer."
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE",
                        help=".jsonl with a text a line; any other file is text, split into "
                        "documents after blank lines; a folder: its files, each text one document")
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path,
                        help="tokenizer.json, or the folder of a model that holds it")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="PREFIX",
                        help="PREFIX.bin and PREFIX.idx are written")
    parser.add_argument("--key", default="text", help="of the text in a .jsonl (default: text)")
    parser.add_argument("--end", metavar="TOKEN",
                        help="token after each document, such as <|endoftext|> (default: none)")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    return parser.parse_args()


def load_tokenizer(path):
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library throws nothing narrower
        raise Problem(f"{file}: error: is no tokenizer: {error}") from error


def files_below(folder):
    """The files below a folder but hidden ones, sorted by path."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [file for file in files
            if not any(part.startswith(".") for part in file.relative_to(folder).parts)]


def text_of_line(file, number, line, key):
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        raise Problem(f"{file}:{number}:{error.colno}: error: {error.msg}") from error
    text = document.get(key) if isinstance(document, dict) else None
    if not isinstance(text, str):
        raise Problem(f"{file}:{number}: error: has no text under `{key}`\n"
                      "  hint: name another with --key")
    return text


def documents_below(folder, key):
    """The documents of a folder: lines of .jsonl, and text files whole, but those with zero bytes."""
    for file in files_below(folder):
        if file.suffix == ".jsonl":
            yield from documents_of(file, key)
            continue
        text = "".join(documents_of(file, key)) if is_text(file) else ""
        if text:
            yield text


def is_text(file):
    with file.open("rb") as content:
        return not any(b"\0" in block for block in iter(lambda: content.read(1 << 20), b""))


def documents_of(file, key):
    """The documents of a file, read line by line."""
    is_json = file.suffix == ".jsonl"
    text, is_blank = [], False
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if is_json:
                    if line.strip():
                        yield text_of_line(file, number, line, key)
                    continue
                if is_blank and line != "\n":
                    yield "".join(text)
                    text = []
                text.append(line)
                is_blank = line == "\n"
    except OSError as error:
        raise Problem(f"{file}: error: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Problem(f"{file}: error: is not UTF-8: {error.reason} at byte {error.start}") from error
    if text:
        yield "".join(text)


def documents_of_all(paths, key):
    for path in paths:
        yield from (documents_below if path.is_dir() else documents_of)(path, key)


def batches(documents):
    batch = []
    for document in documents:
        batch.append(document)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class IndexedFiles:
    """PREFIX.bin and PREFIX.idx under temporary names, until both are whole."""

    def __init__(self, prefix, width, force):
        self.names = [pathlib.Path(f"{prefix}{suffix}") for suffix in (".bin", ".idx")]
        self.letter, self.code = WIDTHS[width]
        self.width = width
        self.lengths = array.array("i")
        for name in self.names:
            if name.exists() and not force:
                raise Problem(f"{name}: error: exists already\n  hint: pass --force to replace it")
        self.bin = self.temporary(0).open("wb")

    def temporary(self, which):
        return self.names[which].with_name(self.names[which].name + f".tmp{os.getpid()}")

    def add(self, tokens):
        if tokens:
            self.bin.write(array.array(self.letter, tokens).tobytes())
            self.lengths.append(len(tokens))

    def index(self):
        n = len(self.lengths)
        first = array.array("q", [0])
        for length in self.lengths:
            first.append(first[-1] + length * self.width)
        yield b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, self.code, n, n + 1)
        yield self.lengths.tobytes()
        yield first[:-1].tobytes()
        yield array.array("q", range(n + 1)).tobytes()

    def publish(self):
        flush(self.bin)
        with self.temporary(1).open("wb") as file:
            for part in self.index():
                file.write(part)
            flush(file)
        for which, name in enumerate(self.names):
            self.temporary(which).replace(name)

    def discard(self):
        self.bin.close()
        for which in (0, 1):
            with contextlib.suppress(FileNotFoundError):
                self.temporary(which).unlink()


def flush(file):
    file.flush()
    os.fsync(file.fileno())
    file.close()


def end_token(tokenizer, text):
    if text is None:
        return []
    token = tokenizer.token_to_id(text)
    if token is None:
        raise Problem(f"--end: error: `{text}` is no token of the tokenizer")
    return [token]


def main():
    arguments = parse_arguments()
    tokenizer = load_tokenizer(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    end = end_token(tokenizer, arguments.end)
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    # Ids need not be dense: the largest decides.
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    out = IndexedFiles(arguments.out, 2 if largest < 65536 else 4, arguments.force)
    try:
        for batch in batches(documents_of_all(arguments.files, arguments.key)):
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                out.add(encoding.ids + end if encoding.ids else [])
        if not out.lengths:
            raise Problem(f"{arguments.files[0]}: error: holds no text")
        out.publish()
    except BaseException:
        out.discard()
        raise
    n_tokens = sum(out.lengths)
    print(f"{arguments.out}.bin, .idx: {len(out.lengths)} documents of {n_tokens} tokens, "
          f"the longest of {max(out.lengths)}; the vocabulary has {vocabulary}, "
          f"so a model needs at least {largest + 1}")


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"{error.filename}: error: {error.strerror}", file=sys.stderr)
        sys.exit(3)
