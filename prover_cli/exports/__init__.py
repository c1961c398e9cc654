"""Credited tokens in the forms that other trainers read; one module per form."""
