"""The controller role: decides over the cluster's metadata while its node leads the metadata quorum."""
