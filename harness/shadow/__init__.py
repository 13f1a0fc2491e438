"""The live comparison: a candidate runs beside the serving engine and nobody sees its answers."""
