"""The coordinator: merges what agents upload, exactly once and durably, and answers over HTTP.

Needs the extra ``service``. ``model`` makes models, ``ledger`` tells new uploads from copies,
``store`` keeps both, ``door`` checks what comes in, ``merger`` merges what waits together in one
transaction, ``app`` speaks HTTP and ``run`` listens.
"""
