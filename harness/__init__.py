"""Evaluation and shadow validation of search engines.

Data flows one way, and imports point the other::

    corpus -> replay -> measures, agreement -> gates -> policy -> report -> stages -> cli
    (all of them stand on core; stats serves everything right of it)

A stage of dvc.yaml, a module of ``harness.stages`` and a command of the CLI share one name.
"""
