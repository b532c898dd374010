// The tokenizer and the chat template of a model, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace reprise::python {

void bind_tokenizers(nanobind::module_& m);

}  // namespace reprise::python
