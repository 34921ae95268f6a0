"""The accuracy and calibration of the classifier, measured on tasks of labelled image sets."""
