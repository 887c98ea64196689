"""Sessions: what people say on channels becomes runs, and what agents say becomes replies."""
