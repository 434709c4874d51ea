"""What the coordinator and the sidecar share as HTTP servers: listening, host names, errors."""
