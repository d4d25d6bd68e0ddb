"""What a running process shows of itself: metrics and health, over HTTP.

Counters are plain integers of the parts that count; they become metrics only when somebody asks for `/metrics`.
"""
