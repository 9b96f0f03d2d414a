#!/usr/bin/env bash
# Whole training steps on a GPU: optimizer, idle time, device memory; on two GPUs DDP and FSDP2. Eager mode, Inductor, Kiln.
#
# usage: ./kiln bench training_steps [MODEL...] [--two-gpus] [--backends eager,inductor,kiln] [--steps N]
# Models: gpt2 bert resnet50 llama; with --two-gpus a GPT-2 of 6 layers, under ddp and fsdp2. Needs a GPU that nothing else uses,
# torch with Triton, transformers and torchvision, and Kiln's wheel, as gpu_kernels.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/training_steps.py "$@"
