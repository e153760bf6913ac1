"""Finding the culprit: cut a part out, record its real inputs, bisect, compare, explain differences."""
