"""What `ntkfl verify --symbolic` prints: every algebraic step of a proof, and whether a machine proved it."""

from collections.abc import Collection

import typer

OF, FAILED = 22, 1


def prove_steps(ids: Collection[str] | None) -> None:
    """Prove the algebraic steps that belong to these statements (None: all), one line each; exit status 1 if one fails.

    Raises:
        ValueError: none of the statements has such a step.
    """
    from bounds.listing import steps
    from experiments.console.bad_input import bad_input
    from verification.symbolic import prove

    chosen = [step for step in steps() if ids is None or step.of in ids]
    with bad_input():
        if not chosen:
            known = ", ".join(sorted({step.of for step in steps()}))
            raise ValueError(f"no algebraic step belongs to {', '.join(ids or ())}; there are steps for {known}")
    proofs = []
    for step in chosen:
        proofs.append(prove(step))
        typer.echo(f"{'proved' if proofs[-1].proved else 'FAILED':<8}{step.of:<{OF}} {step.says}")
        typer.echo(f"{'':<{8 + OF}} {proofs[-1].how}")
    count = sum(proof.proved for proof in proofs)
    typer.echo(f"\n{count} of {len(proofs)} steps proved; nothing here is sampled")
    if count < len(proofs):
        raise typer.Exit(FAILED)
