"""Small tokenizers with chat templates that behave like those of published models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

CHATML = """\
{%- if messages[0].role != 'system' %}<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

QWEN3 = """\
{%- set at = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set at.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role != 'assistant' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- else %}
        {%- set said, thought = message.content, '' %}
        {%- if '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > at.last and (loop.last or thought) %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- said + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

QWEN35 = """\
{%- macro shown(content) %}{% if content is string %}{{ content }}{% endif %}{% endmacro %}
{%- set at = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set at.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- if at.last < 0 %}{{ raise_exception('No user query found in messages.') }}{% endif %}
{%- for message in messages %}
    {%- set said = shown(message.content) | trim %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('System message must be at the beginning.') }}
    {%- elif message.role != 'assistant' %}
        {{- '<|im_start|>' + message.role + '\\n' + said + '<|im_end|>\\n' }}
    {%- else %}
        {%- set thought = '' %}
        {%- if '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1] | trim %}
            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > at.last %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- said + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is true %}
        {{- '<think>\\n' }}
    {%- else %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
    {{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

LLAMA3_DATED = LLAMA3.replace(
    "{{- bos_token }}",
    "{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' }}"
    "{{- strftime_now('%d %b %Y') + '<|eot_id|>' }}",
)

TOOLS = """\
{%- for message in messages %}
    {%- set asks = message.role in ['tool', 'user'] %}
    {%- if not asks %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- else %}
        {%- if loop.first or messages[loop.index0 - 1].role not in ['tool', 'user'] %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {%- if message.role == 'tool' %}
            {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- else %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- if loop.last or messages[loop.index0 + 1].role not in ['tool', 'user'] %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

MISTRAL = """\
{%- set system = '' %}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content + '\\n\\n' %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/...') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + (system if loop.first else '') + message.content + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- endif %}
{%- endfor %}"""

GEMMA = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<start_of_turn>' + role + '\\n' + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""


@dataclass(frozen=True)
class ChatModel:
    """A template with the tokens that it is written for."""

    template: str
    special: tuple[str, ...]
    plain: tuple[str, ...] = ()
    """Added tokens that the tokenizer does not call special."""
    names: dict[str, str] = field(default_factory=dict)
    """`eos_token` and the like."""
    eos: tuple[str, ...] = ()
    """What `generation_config.json` lists."""
    metaspace: bool = False
    """A tokenizer that puts a blank before the first word, as SentencePiece does."""


_IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_THINK = ("<think>", "</think>")
_TOOL = ("<tool_response>", "</tool_response>")
_QWEN = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
_LLAMA = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
_LLAMA_NAMES = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
_ENDS = ("<|im_end|>", "<|endoftext|>")

MODELS = {
    "chatml": ChatModel(CHATML, _IM, names=_QWEN),
    "qwen3": ChatModel(QWEN3, _IM, _THINK, _QWEN, _ENDS),
    "qwen35": ChatModel(QWEN35, _IM, _THINK, _QWEN, _ENDS),
    "llama3": ChatModel(LLAMA3, _LLAMA, (), _LLAMA_NAMES, ("<|end_of_text|>", "<|eot_id|>")),
    "tools": ChatModel(TOOLS, _IM, (*_THINK, *_TOOL), _QWEN),
    "mistral": ChatModel(
        MISTRAL,
        ("<s>", "</s>", "[INST]", "[/INST]"),
        names={"bos_token": "<s>", "eos_token": "</s>"},
        metaspace=True,
    ),
    "gemma": ChatModel(
        GEMMA,
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        names={"bos_token": "<bos>", "eos_token": "<eos>"},
        metaspace=True,
    ),
}
_CORPUS = [
    "You are in a room. Take the red key and open the door of the next room.",
    "system user assistant model Search for a lamp; buy it now. \n\n Action: go to desk 1",
    "<think> I should look around first. </think> INST think tool response",
]


@cache
def _trained(name: str) -> str:
    model = MODELS[name]
    tokenizer = Tokenizer(models.BPE(byte_fallback=model.metaspace))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if model.metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]
        )
        alphabet = [chr(i) for i in range(32, 127)]
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    bytes_ = [f"<0x{i:02X}>" for i in range(256)] if model.metaspace else []
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=[*model.special, *bytes_],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS * 3, trainer)
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] not in bytes_]
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in model.plain])
    return str(tokenizer.to_str())


def chat_model(folder: Path, name: str, template: str | None = None) -> Path:
    """The chat part of a checkpoint folder; `template` in place of the model's own."""
    model = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(_trained(name), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(model.names))
    (folder / "chat_template.jinja").write_text(template or model.template)
    if model.eos:
        tokenizer = Tokenizer.from_str(_trained(name))
        ids = [tokenizer.token_to_id(token) for token in model.eos]
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    return folder
