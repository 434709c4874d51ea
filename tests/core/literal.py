"""The algorithms again, dense and slow, line by line from their papers.

What is shipped must equal them. Nothing here uses the shipped linear algebra; only the two named
comparisons are shared, because a tie broken differently is not an error.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.ucb import exceeds, first_best
from fedbandit.worlds import Round

Array = NDArray[Any]


@dataclass
class Played:
    """The arms played and the rounds that uploaded."""

    arm: list[int] = field(default_factory=list)
    uploaded: list[bool] = field(default_factory=list)


def scfd(rows: Array, size: int) -> tuple[Array, float]:
    """Alg. 1 lines 7-10 and Alg. 2 lines 3-6."""
    d = rows.shape[1]
    _, sigma, vt = np.linalg.svd(rows, full_matrices=False)
    squares = np.zeros(max(size, len(sigma)))
    squares[: len(sigma)] = sigma**2
    delta = float(squares[size - 1]) if size <= d else 0.0
    kept = np.sqrt(np.maximum(squares[: len(sigma)] - delta, 0.0))[:, None] * vt
    out = np.zeros((size, d))
    out[: min(size, len(kept))] = kept[:size]
    return out, delta


def logdet(matrix: Array) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def ucb(theta: Array, inverse: Array, beta: float, arms: Array) -> int:
    """Line 3."""
    return first_best(np.array([x @ theta + beta * np.sqrt(x @ inverse @ x) for x in arms]))


def fsclb(
    rounds: list[Round], *, d: int, size: int, M: int, alpha: float, lam: float, beta: float
) -> Played:
    """FSCLB, Algorithms 1 and 2: two SVDs a round, every matrix formed, determinants in logs."""
    eye = np.eye(d)
    V = [lam * eye for _ in range(M)]
    S = [np.zeros((size, d)) for _ in range(M)]
    S_loc = [np.zeros((size, d)) for _ in range(M)]
    rho_loc, Delta = [0.0] * M, [0.0] * M
    theta: list[Array] = [np.zeros(d) for _ in range(M)]
    b_loc = [np.zeros(d) for _ in range(M)]
    S_ser, b_ser, rho_ser, rho_tilde = np.zeros((size, d)), np.zeros(d), 0.0, 0.0
    played = Played()
    for m, arms, _, rewards in rounds:
        k = ucb(theta[m], np.linalg.inv(V[m]), beta, arms)
        x, r = arms[k], rewards[k]
        b_loc[m] = b_loc[m] + r * x
        S_loc[m], delta = scfd(np.vstack([S_loc[m], x]), size)
        rho_loc[m] += delta
        sigma = np.linalg.svd(np.vstack([S[m], S_loc[m]]), compute_uv=False)
        raised = lam + rho_loc[m] + Delta[m]
        log_det = np.log(sigma**2 + raised).sum() + (d - len(sigma)) * np.log(raised)
        upload = exceeds(log_det - np.linalg.slogdet(V[m])[1], np.log(1 + alpha))
        if upload:
            rho_ser += rho_loc[m]
            S_ser, delta = scfd(np.vstack([S_ser, S_loc[m]]), size)
            rho_tilde += delta
            b_ser = b_ser + b_loc[m]
            Delta[m] = rho_tilde + rho_ser
            V[m] = (lam + Delta[m]) * eye + S_ser.T @ S_ser
            S[m], theta[m] = S_ser, np.linalg.solve(V[m], b_ser)
            S_loc[m], b_loc[m], rho_loc[m] = np.zeros((size, d)), np.zeros(d), 0.0
        played.arm.append(k)
        played.uploaded.append(upload)
    return played


def fsclb_buffered(
    rounds: list[Round],
    *,
    d: int,
    size: int,
    buffer: int,
    M: int,
    alpha: float,
    lam: float,
    beta: float,
) -> Played:
    """FSCLB with a buffer: rows are kept raw and sketched when the buffer is full or is sent."""
    eye = np.eye(d)
    V = [lam * eye for _ in range(M)]
    rows = [np.zeros((0, d)) for _ in range(M)]
    rho = [0.0] * M
    theta: list[Array] = [np.zeros(d) for _ in range(M)]
    b = [np.zeros(d) for _ in range(M)]
    S_ser, b_ser, Delta = np.zeros((size, d)), np.zeros(d), 0.0
    played = Played()
    for m, arms, _, rewards in rounds:
        k = ucb(theta[m], np.linalg.inv(V[m]), beta, arms)
        b[m] = b[m] + rewards[k] * arms[k]
        rows[m] = np.vstack([rows[m], arms[k]])
        if len(rows[m]) == buffer and buffer <= d:  # a larger one can hold X^T X exactly
            rows[m], delta = scfd(rows[m], size)
            rows[m], rho[m] = rows[m][: size - 1], rho[m] + delta
        growth = logdet(V[m] + rows[m].T @ rows[m] + rho[m] * eye) - logdet(V[m])
        upload = exceeds(growth, np.log(1 + alpha))
        if upload:
            rows[m], delta = scfd(rows[m], size)
            Delta += rho[m] + delta
            S_ser, delta = scfd(np.vstack([S_ser, rows[m]]), size)
            Delta, b_ser = Delta + delta, b_ser + b[m]
            V[m] = (lam + Delta) * eye + S_ser.T @ S_ser
            theta[m] = np.linalg.solve(V[m], b_ser)
            rows[m], rho[m], b[m] = np.zeros((0, d)), 0.0, np.zeros(d)
        played.arm.append(k)
        played.uploaded.append(upload)
    return played


def fedlinucb(
    rounds: list[Round], *, d: int, M: int, alpha: float, lam: float, beta: float
) -> Played:
    """FedLinUCB, He et al. 2022, Algorithm 1."""
    V, P = [lam * np.eye(d) for _ in range(M)], [np.zeros((d, d)) for _ in range(M)]
    theta: list[Array] = [np.zeros(d) for _ in range(M)]
    b = [np.zeros(d) for _ in range(M)]
    V_ser, b_ser = lam * np.eye(d), np.zeros(d)
    played = Played()
    for m, arms, _, rewards in rounds:
        k = ucb(theta[m], np.linalg.inv(V[m]), beta, arms)
        x = arms[k]
        P[m], b[m] = P[m] + np.outer(x, x), b[m] + rewards[k] * x
        growth = np.linalg.slogdet(V[m] + P[m])[1] - np.linalg.slogdet(V[m])[1]
        upload = exceeds(growth, np.log(1 + alpha))
        if upload:
            V_ser, b_ser = V_ser + P[m], b_ser + b[m]
            V[m], theta[m] = V_ser, np.linalg.solve(V_ser, b_ser)
            P[m], b[m] = np.zeros((d, d)), np.zeros(d)
        played.arm.append(k)
        played.uploaded.append(upload)
    return played


def async_linucb(
    rounds: list[Round], *, d: int, M: int, up: float, down: float, lam: float, beta: float
) -> Played:
    """Async-LinUCB, Li and Wang 2022: agents add the differences that the server owes them."""
    V, b = [lam * np.eye(d) for _ in range(M)], [np.zeros(d) for _ in range(M)]
    dV, db = [np.zeros((d, d)) for _ in range(M)], [np.zeros(d) for _ in range(M)]
    owed, owed_b = [np.zeros((d, d)) for _ in range(M)], [np.zeros(d) for _ in range(M)]
    V_ser = lam * np.eye(d)
    played = Played()
    for m, arms, _, rewards in rounds:
        k = ucb(np.linalg.solve(V[m], b[m]), np.linalg.inv(V[m]), beta, arms)
        x, r = arms[k], rewards[k]
        for matrix, vector in ((V, b), (dV, db)):
            matrix[m], vector[m] = matrix[m] + np.outer(x, x), vector[m] + r * x
        upload = exceeds(logdet(V[m]) - logdet(V[m] - dV[m]), np.log(up))
        if upload:
            V_ser = V_ser + dV[m]
            for j in range(M):
                if j != m:
                    owed[j], owed_b[j] = owed[j] + dV[m], owed_b[j] + db[m]
            dV[m], db[m] = np.zeros((d, d)), np.zeros(d)
            for j in range(M):
                if exceeds(logdet(V_ser) - logdet(V_ser - owed[j]), np.log(down)):
                    V[j], b[j] = V[j] + owed[j], b[j] + owed_b[j]
                    owed[j], owed_b[j] = np.zeros((d, d)), np.zeros(d)
        played.arm.append(k)
        played.uploaded.append(upload)
    return played


def dislinucb(rounds: list[Round], *, d: int, M: int, D: float, lam: float, beta: float) -> Played:
    """DisLinUCB, Wang et al. 2020, one agent active a round."""
    V_syn, b_syn = lam * np.eye(d), np.zeros(d)
    dV, db = [np.zeros((d, d)) for _ in range(M)], [np.zeros(d) for _ in range(M)]
    waited = [0] * M
    played = Played()
    for m, arms, _, rewards in rounds:
        V = V_syn + dV[m]
        k = ucb(np.linalg.solve(V, b_syn + db[m]), np.linalg.inv(V), beta, arms)
        x = arms[k]
        dV[m], db[m] = dV[m] + np.outer(x, x), db[m] + rewards[k] * x
        waited[m] += 1
        growth = np.linalg.slogdet(V_syn + dV[m])[1] - np.linalg.slogdet(V_syn)[1]
        upload = exceeds(growth, D / waited[m])
        if upload:
            V_syn, b_syn = V_syn + sum(dV), b_syn + sum(db)
            dV, db = [np.zeros((d, d)) for _ in range(M)], [np.zeros(d) for _ in range(M)]
            waited = [0] * M
        played.arm.append(k)
        played.uploaded.append(upload)
    return played


def linucb(rounds: list[Round], *, d: int, M: int, lam: float, beta: float) -> Played:
    """OFUL with a fixed radius: M learners that never talk, a fresh inverse every round."""
    V, b = [lam * np.eye(d) for _ in range(M)], [np.zeros(d) for _ in range(M)]
    played = Played()
    for m, arms, _, rewards in rounds:
        inverse = np.linalg.inv(V[m])
        k = ucb(inverse @ b[m], inverse, beta, arms)
        x = arms[k]
        V[m], b[m] = V[m] + np.outer(x, x), b[m] + rewards[k] * x
        played.arm.append(k)
        played.uploaded.append(False)
    return played


def sketched(
    rounds: list[Round], *, d: int, size: int, M: int, lam: float, beta: float, compensated: bool
) -> Played:
    """SOFUL (uncompensated) and CBSCFD (compensated): an SVD a round, a dense inverse a round."""
    S, b, shed = [np.zeros((size, d)) for _ in range(M)], [np.zeros(d) for _ in range(M)], [0.0] * M
    played = Played()
    for m, arms, _, rewards in rounds:
        ridge = lam + shed[m] if compensated else lam
        inverse = np.linalg.inv(ridge * np.eye(d) + S[m].T @ S[m])
        k = ucb(inverse @ b[m], inverse, beta, arms)
        x = arms[k]
        S[m], delta = scfd(np.vstack([S[m], x]), size)
        shed[m] += delta
        b[m] = b[m] + rewards[k] * x
        played.arm.append(k)
        played.uploaded.append(False)
    return played
