"""A client's side of TLS by hand, to send what no honest client sends."""

import _ssl
import asyncio
import ctypes
import socket
import ssl

_library = ctypes.CDLL(_ssl.__file__)
_library.SSL_key_update.argtypes = [ctypes.c_void_p, ctypes.c_int]
_library.SSL_do_handshake.argtypes = [ctypes.c_void_p]
_library.SSL_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p]
_SET_GROUPS = 92
_ANSWER_TOO = 1  # the other side has to change its keys as well
_PLACE = 24  # where CPython's object has the pointer to that of OpenSSL


async def shaken(
    place: tuple[str, int], context: ssl.SSLContext, source: tuple[str, int] = ("127.0.0.1", 0)
) -> tuple[socket.socket, ssl.SSLObject, ssl.MemoryBIO]:
    """Return a connection with TLS set up, its TLS, and where that puts bytes to be sent."""
    loop, connection = asyncio.get_running_loop(), socket.socket()
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(received, to_send, server_hostname=place[0])
    try:
        connection.setblocking(False)
        connection.bind(source)
        await loop.sock_connect(connection, place)
        while not _is_shaken(secure):
            await loop.sock_sendall(connection, to_send.read())
            data = await loop.sock_recv(connection, 2**14)
            if not data:
                raise ConnectionResetError
            received.write(data)
        await loop.sock_sendall(connection, to_send.read())
    except BaseException:
        connection.close()
        raise
    return connection, secure, to_send


def _is_shaken(secure: ssl.SSLObject) -> bool:
    try:
        secure.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def key_updates(secure: ssl.SSLObject, number: int) -> None:
    """Change the keys of a connection so many times; Python's own module cannot."""
    pointer = _pointer(secure)
    for _ in range(number):
        assert _library.SSL_key_update(pointer, _ANSWER_TOO) == 1
        _library.SSL_do_handshake(pointer)


def use_groups(secure: ssl.SSLObject, names: str) -> None:
    """Exchange keys by these groups alone; a key of the first one is offered."""
    assert _library.SSL_ctrl(_pointer(secure), _SET_GROUPS, 0, names.encode()) == 1


def _pointer(secure: ssl.SSLObject) -> int | None:
    # The ssl module has no public way to change keys or groups, and attackers need none.
    inner = secure._sslobj  # type: ignore[attr-defined]
    return ctypes.c_void_p.from_address(id(inner) + _PLACE).value


def greeting(
    context: ssl.SSLContext, groups: str | None = None, *, name: str = "127.0.0.1"
) -> bytes:
    """Return what a client says first."""
    to_send = ssl.MemoryBIO()
    secure = context.wrap_bio(ssl.MemoryBIO(), to_send, server_hostname=name)
    if groups is not None:
        use_groups(secure, groups)
    assert not _is_shaken(secure)
    return to_send.read()


def tiny_records(secure: ssl.SSLObject, data: bytes) -> None:
    """Say something one byte at a time, each in a record of 23 bytes."""
    for start in range(len(data)):
        secure.write(data[start : start + 1])
