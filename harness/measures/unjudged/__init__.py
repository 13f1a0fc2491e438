"""Documents without a judgement: between which values they leave a measure."""
