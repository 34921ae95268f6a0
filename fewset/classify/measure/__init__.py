"""How good the classifier is, measured on tasks of labelled image sets: what `fewset measure` computes."""
