"""Reads traces into Arrow tables: formats, schemas, cache, assembly of ranks into a run."""
