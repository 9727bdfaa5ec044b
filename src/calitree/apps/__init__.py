"""What a calibrated tree is for. Each application asks questions as any user would, and knows nothing of
engines.
"""
