"""Every figure; nothing else imports a plotting library."""
