"""Columns of Arrow tables as numpy arrays, without a Python object per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

ABSENT = int(np.iinfo(np.int64).min)


def _array(table: pa.Table, column: str) -> pa.Array:
    chunked = table.column(column)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def ints(table: pa.Table, column: str, null: int = ABSENT) -> Int:
    """An integer column as int64, nulls as `null`."""
    array = _array(table, column)
    if array.null_count:
        array = array.fill_null(null) if null != ABSENT else array.cast(pa.int64()).fill_null(null)
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def codes(table: pa.Table, column: str) -> tuple[Small, list[str]]:
    """A dictionary column as (code per row, words); -1 for null."""
    array = _array(table, column)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.array([], array.type)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return (
        np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.int32, copy=False),
        [word if word is not None else "" for word in array.dictionary.to_pylist()],
    )


def which(table: pa.Table, column: str, words: tuple[str, ...]) -> Small:
    """A dictionary column as indices into `words`; -1 for any other word."""
    code, found = codes(table, column)
    position = {word: index for index, word in enumerate(words)}
    lookup = np.array([position.get(word, -1) for word in found] + [-1], dtype=np.int32)
    return lookup[code]


def worded(code: npt.NDArray[np.integer], words: tuple[str, ...]) -> pa.DictionaryArray:
    """Codes into `words` as a dictionary column; below 0 is null.

    A word that stands twice in `words` is once in the dictionary: pandas takes no other.
    """
    once = tuple(dict.fromkeys(words))
    if len(once) < len(words):
        place = np.array([once.index(word) for word in words])
        code, words = np.where(code < 0, -1, place[code]), once
    indices = pa.array(code.astype(np.int8), mask=code < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def spread(first: Int, count: Int) -> Int:
    """The concatenation of `range(first[i], first[i] + count[i])` for every i."""
    total = int(count.sum())
    if total == 0:
        return np.empty(0, np.int64)
    ends = np.cumsum(count)
    out: Int = np.arange(total, dtype=np.int64) + np.repeat(first - (ends - count), count)
    return out


def distinct(values: Int | Small) -> Int:
    """The distinct values, sorted. `np.unique` hashes, which is many times slower here."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    out: Int = ordered[new].astype(np.int64, copy=False)
    return out
