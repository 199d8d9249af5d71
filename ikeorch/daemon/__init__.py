"""ikeorchd: the composition root, the reconcile loop and the local API."""
