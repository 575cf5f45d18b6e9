"""What each command does: permission, call, reply. One module per area, no I/O of their own.

A handler is a function of the services it needs, the connection it serves and the request. It
returns the value of the reply, or a coroutine of it when it has to wait: the commands that move
messages mostly don't, and then cost no task. It ends otherwise by raising `UnsuccessfulError`.
"""
