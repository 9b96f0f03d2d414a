# Sourced by the benchmarks that run beside PyTorch.

# torch_python: a python that has torch and Kiln's wheel. KILN_PYTHON, if it is set; else that of build/torch-tests, which
# ./kiln test-torch makes; else python3.
torch_python() {
  local python=${KILN_PYTHON:-build/torch-tests/bin/python}
  [[ -n ${KILN_PYTHON:-} || -x $python ]] || python=python3
  if ! "$python" -c 'import importlib.util as i, sys; sys.exit(not (i.find_spec("torch") and i.find_spec("kiln")))'; then
    echo "kiln bench: $python lacks torch or Kiln's wheel; ./kiln test-torch makes build/torch-tests, or set KILN_PYTHON" >&2
    return 2
  fi
  echo "$python"
}
