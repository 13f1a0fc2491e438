"""The live comparison: a candidate runs beside the serving engine and no one sees its answers."""
