"""What `specscope scrub` knows of names, paths and hosts: tables and patterns, no work."""

from __future__ import annotations

import re
from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Keys, variables and settings whose value names a user or a host, whatever it looks like.
USER_KEYS: Final = re.compile(r"(?i)(?:\w+_)?(?:user|username|user_name|logname|login|sudo_user)")
HOST_KEYS: Final = re.compile(
    r"(?i)(?:\w+_)?(?:host|hostname|host_name|node_?name|nodelist|machine_name|fqdn|master_addr"
    r"|init_addr|device_display_name)"
)
# Keys whose value identifies a machine or a device and says nothing else.
ID_KEYS: Final = re.compile(r"(?i)(?:\w*[_ ])?(?:uuid|luid|guid|mac|serial|device_id|machine_id)")

# Variables by which an environment is known, and those that may stay (their texts masked).
ENVIRONMENT_MARKS: Final = _set(
    """
    PATH HOME USER LOGNAME HOSTNAME PWD OLDPWD SHELL LANG TERM SHLVL LD_LIBRARY_PATH PYTHONPATH
    VIRTUAL_ENV
    """
)
HARMLESS_VARIABLES: Final = re.compile(
    r"CUDA_(?:VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_ORDER|GRAPHS?_\w+)"
    r"|(?:NCCL|SGLANG|SGL|VLLM|TRTLLM|TORCH|PYTORCH|OMP|SPECSCOPE|NSYS|HSA|RCCL|TRITON)_\w+"
    r"|(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)"
)

# Words that name a user or host somewhere and mean something else everywhere.
COMMON_WORDS: Final = _set(
    """
    root user users admin git ubuntu debian centos nobody guest test tester default docker runner
    jovyan vscode build builder ray spark slurm dev ops home work workspace app service python
    localhost local host node server master worker leader head gpu cpu cuda nvidia amd machine
    container pod unknown none null scrubbed sglang vllm trtllm torch pytorch transformers
    lmdeploy triton flash nccl rccl eagle medusa draft verify accept schedule decode prefill
    extend cycle step stage batch model target kernel graph stream rank linux windows x86_64
    """
)

# What a setting says and no secret is.
SETTINGS: Final = frozenset({"", "true", "false", "none", "null", "yes", "no", "on", "off"})

# Hosts that every machine has.
OWN_HOSTS: Final = re.compile(r"(?i)localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|::1?|\[::1?\]|")
PLACEHOLDER: Final = re.compile(r"(?:user|host|address|id)\d+")

# Packages whose files tell a stage or a module: what stands behind them in a path stays.
PACKAGES: Final = _set(
    """
    sglang vllm tensorrt_llm transformers lmdeploy torch triton flashinfer flash_attn
    sgl_kernel deep_gemm deep_ep xformers accelerate megatron specscope
    """
)
SITE: Final = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
# Parts of the system that are the same on every machine.
SYSTEM_PATHS: Final = ("/p/", "/dev/", "/proc/", "/sys/")

# What a path cannot hold where it stands in a text.
_PART: Final = r"""[^\s"'<>|;,()\[\]{}=*?:\\]"""
# A path on its own: begins where no word does, and has two parts at least.
PATH: Final = re.compile(rf"(?<![\w./\\)\]}}*\-+%@$~])~?[\w.\-]*/{_PART}+/{_PART}*")
PATH_START: Final = re.compile(r"~[\w.\-]*/|/")
# A path of a file system by its first part; homes also inside a word (a/home/...).
ROOTED: Final = re.compile(
    rf"(?<!\w/p)/(?:home\d*|Users|root|export/home)/{_PART}+"
    r"|(?:(?<![\w./\-])|(?<=-[A-Z]))/(?:mnt|media|Volumes|tmp|private|usr|opt|var|etc|srv|nfs"
    rf"|lustre|gpfs|scratch|workspaces?|fsx|efs|nvme\w*|shared|projects?|data\d*)/{_PART}+"
)
HOME: Final = re.compile(
    r"/(?:home\d*|[Uu]sers|export/home)/([\w.\-]+)|^~([\w.\-]+)/|/torchinductor_([\w.\-]+)/"
)
WINDOWS: Final = re.compile(r"(?<![\w])[A-Za-z]:\\(?:[^\\\s\"'<>|;,]+\\)*[^\\\s\"'<>|;,]+")

URL: Final = re.compile(
    r"(?<![\w+.\-])([a-zA-Z][\w+.\-]*)://((?:\*\*\*@)?)(\[[\w:.%]+\]|[\w.\-%]*)(:\d+)?"
    r"(/[^\s\"'<>]*|\?[^\s\"'<>]*)?"
)
EMAIL: Final = re.compile(r"(?<![\w.+\-])[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+")
USER_AT_HOST: Final = re.compile(r"(?<![\w.+\-@])([A-Za-z_][\w.\-]*)@([A-Za-z][\w.\-]*)(?=[:\s]|$)")
ADDRESS: Final = re.compile(
    r"(?<![\w.])(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?![\w.]*\d)"
    r"|(?<![\w:.])(?:fe80|f[cd][0-9a-fA-F]{2}|2[0-9a-fA-F]{3})(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
    r"|(?<![\w:.])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"
)
DOMAIN: Final = re.compile(
    r"(?<![\w./@\-])[A-Za-z0-9][\w\-]*(?:\.[A-Za-z0-9][\w\-]*)*"
    r"\.(?:com|org|edu|gov|mil|local|internal|intranet|lan|corp|cluster|localdomain)"
    r"(?:\.[a-z]{2})?(?![\w.]*\w)"
    r"|(?<![\w./@\-])[A-Za-z0-9][\w\-]*(?:\.[A-Za-z0-9][\w\-]*)+\.(?:net|io|ai|cloud|dev|de|uk|fr|cn|jp)"
    r"(?![\w.(]*\w)"
)
# Tokens that no name of code looks like: a known beginning and twenty letters of any kind.
CODE_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|gh[pousr]_|github_pat_|glpat-|nvapi-|sk-|xox[abp]-)"
    r"(?=[\w\-]*\d)(?=[\w\-]*[a-z])[A-Za-z0-9][\w\-]{19,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]+)*"
)
UUID: Final = re.compile(
    r"(?i)(?<![0-9a-f])(?:(?:GPU|MIG)-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"(?![0-9a-f])"
)
FRAME: Final = re.compile(r"(?s)(.+)(\(\d+\): .*)")
