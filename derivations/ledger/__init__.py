"""The ledger: the claims of documents, one module per document, each claim bound to what decides it."""
