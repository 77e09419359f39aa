"""Discovery: who the targets of a pool are, found in files, over HTTP, in DNS, in Kubernetes.

    provider ─ label sets ─ feed (keeps the last good answer) ─ relabel rules ─ targets

A provider asks and either answers or fails; it remembers nothing. A feed remembers: what
fails keeps its last good answer, and an empty answer is obeyed because it is an answer.
"""
