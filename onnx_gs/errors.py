"""Errors of this package: what went wrong, where, and how to fix it."""

from __future__ import annotations


class OnnxGsError(Exception):
    r"""An error that names what is wrong, where it is, and what to do about it.

    Args:
        what: the fault, naming node, tensor, value and expected value. Lowercase, no full stop.
        where: a path such as ``graph 'main' > node 'Loop_3' (Loop) > body > node #17 (Add)``.
        fix: what the reader can do.

    Example:
        >>> str(OnnxGsError("tensor 'h' is produced twice", where="graph 'main'", fix="rename one output"))
        "tensor 'h' is produced twice\n  where: graph 'main'\n  fix: rename one output"
    """

    def __init__(self, what: str = "", where: str | None = None, fix: str | None = None) -> None:
        """Keep the three parts as fields, so that tools can read them."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        """Join the parts, one a line."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the three parts, so that errors cross process borders whole."""
        return (type(self), (self.what, self.where, self.fix))


class GraphError(OnnxGsError):
    """A graph breaks a rule of ONNX, or an edit would make it do so."""


class GraphTypeError(GraphError, TypeError, AttributeError):
    """Something of the wrong kind was put where a tensor, a node or a value belongs."""


class GraphValueError(GraphError, ValueError):
    """An argument has a value that the call does not take."""


class ModelFileError(OnnxGsError):
    """A model file, or a file beside it, cannot be read or written."""


class EvaluationError(OnnxGsError):
    """A graph or node could not be evaluated."""


class VerificationError(OnnxGsError):
    """A rewrite changed what the model computes."""


class UnsupportedTypeError(OnnxGsError, RuntimeError):
    """The installed ``onnx`` package lacks an element type that is needed."""


class MissingExtraError(OnnxGsError, ImportError):
    """An optional package is missing; ``fix`` names the extra that installs it.

    Args:
        package: the package.
        extra: the extra of ours that brings it.
        purpose: what it is needed for, after "to".
        instead: another package that would do, and its extra.

    Example:
        >>> print(MissingExtraError("onnxruntime", "cpu", "run models"))
        package 'onnxruntime' is not installed; it is needed to run models
          fix: pip install 'onnx_gs[cpu]'
    """

    def __init__(self, package: str, extra: str, purpose: str, instead: tuple[str, str] | None = None) -> None:
        """Name each package with what installs it."""
        if instead is None:
            what, fix = f"package '{package}' is not installed; it is needed to {purpose}", f"pip install 'onnx_gs[{extra}]'"
        else:
            what = f"neither package '{package}' nor '{instead[0]}' is installed; one of them is needed to {purpose}"
            fix = f"pip install 'onnx_gs[{extra}]' brings {package}; pip install 'onnx_gs[{instead[1]}]' brings {instead[0]}"
        super().__init__(what, fix=fix)
        self.package, self.extra, self.purpose, self.instead = package, extra, purpose, instead

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.package, self.extra, self.purpose, self.instead))


class TensorRTError(OnnxGsError):
    """TensorRT refused a model, a setting or an engine."""


#: The name under which scripts for onnx-graphsurgeon catch errors.
OnnxGraphSurgeonException = OnnxGsError
