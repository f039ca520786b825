"""Pure functions from tables to tables and to one report: links, stages, cycles, verdict."""
