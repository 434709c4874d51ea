"""What the coordinator and the sidecar share as HTTP servers: a socket, names, a description."""
