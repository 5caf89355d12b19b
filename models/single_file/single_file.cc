#include "models/single_file/single_file.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

// Drops the trailing two ones of a 1 x 1 convolution's weight: some files hold matrices instead.
Shape AsMatrix(const Shape& shape) {
  const bool is_convolution = shape.rank() == 4 && shape[2] == 1 && shape[3] == 1;
  return is_convolution ? Shape({shape[0], shape[1]}) : shape;
}

// Returns the number of tensors of the form that the file has.
int64_t CountTensors(const SafetensorsFile& file, const StoredComponent& component,
                     const OriginalForm& form) {
  int64_t count = 0;
  for (const OriginalTensor& tensor : OriginalTensors(form.layout, component.parameters)) {
    if (!tensor.name.empty() && file.Find(form.prefix + tensor.name) != nullptr) ++count;
  }
  return count;
}

// Returns the form of which the file has the most tensors; null if it has none.
const OriginalForm* ChooseForm(const SafetensorsFile& file, const StoredComponent& component) {
  const OriginalForm* best = nullptr;
  int64_t most = 0;
  for (const OriginalForm& form : component.forms) {
    const int64_t count = CountTensors(file, component, form);
    if (count > most) best = &form;
    most = std::max(most, count);
  }
  return best;
}

// Returns the second name of a tensor of the form, with the prefix; empty if there is none.
std::string SecondName(const OriginalForm& form, const std::string& tensor) {
  const auto found = form.second_names.find(tensor);
  return found == form.second_names.end() ? "" : form.prefix + found->second;
}

// Reads the rows of a tensor that hold a parameter.
absl::StatusOr<Tensor> ReadRows(const std::string& file, const SafetensorsView& view,
                                int64_t first_row, const nn::ParameterInfo& parameter,
                                Rearrangement rearrangement) {
  const Shape shape = StoredShape(parameter.shape, rearrangement);
  const int64_t bytes = shape.num_elements() * SafetensorsElementBytes(view.dtype);
  SafetensorsView rows = view;
  rows.shape.assign(shape.dims().begin(), shape.dims().end());
  rows.bytes = view.bytes.substr(first_row * (bytes / shape[0]), bytes);
  DPIPE_ASSIGN_OR_RETURN(const Tensor stored, ToFp32(rows, Device::Cpu()));
  ReleasePages(rows);
  DPIPE_RETURN_IF_ERROR(CheckFinite(file, view.name, stored.span<float>()));
  return FromStored(stored, parameter.shape, rearrangement);
}

absl::Status CheckIsIdentity(const WrittenComponent& written, const nn::ParameterInfo& parameter) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor value, written.source->Read(parameter));
  const Tensor identity = IdentityMatrix(parameter.shape[0]);
  if (std::memcmp(value.raw_data(), identity.raw_data(), identity.size_bytes()) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(written.component->name, ": ", parameter.name,
                   " is not the identity matrix; the original layout does not store it, so other "
                   "programs would draw other pictures"));
}

// Reads a tensor of the file from the parameters that it joins.
absl::StatusOr<Tensor> ReadJoined(const OriginalTensor& tensor, const nn::ParameterSource& source) {
  std::vector<Tensor> parts;
  for (const OriginalTensor::Part& part : tensor.parts) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor value, source.Read(part.parameter));
    parts.push_back(ToStored(value, part.rearrangement));
  }
  return ConcatBatch(parts);
}

}  // namespace

StoredFormat NarrowestFormat(const std::vector<const SafetensorsView*>& tensors) {
  bool fits_fp16 = true, fits_bf16 = true;
  for (const SafetensorsView* tensor : tensors) {
    const bool is_fp8 = tensor->dtype == "F8_E4M3";
    if (tensor->shape.empty()) continue;  // scalars are stored as fp32
    fits_fp16 = fits_fp16 && (tensor->dtype == "F16" || is_fp8);
    fits_bf16 = fits_bf16 && (tensor->dtype == "BF16" || is_fp8);
  }
  if (fits_bf16) return StoredFormat::kBf16;
  return fits_fp16 ? StoredFormat::kFp16 : StoredFormat::kFp32;
}

SingleFile::SingleFile(SafetensorsFile file, const std::vector<StoredComponent>& components)
    : file_(std::make_shared<const SafetensorsFile>(std::move(file))) {
  std::map<std::string, const OriginalForm*> forms;
  for (const StoredComponent& component : components) {
    const OriginalForm* form = ChooseForm(*file_, component);
    if (form != nullptr) {
      forms[component.name] = form;
      Find(component, *form);
    } else if (&component == &components.front()) {
      num_absent_ = static_cast<int64_t>(component.parameters.size());
    }
  }
  FindOthers(forms);
}

void SingleFile::Find(const StoredComponent& component, const OriginalForm& form) {
  Component& found = found_[component.name];
  for (const OriginalTensor& tensor : OriginalTensors(form.layout, component.parameters)) {
    const bool is_stored = !tensor.name.empty();
    const SafetensorsView* view = is_stored ? file_->Find(form.prefix + tensor.name) : nullptr;
    const std::string second_name = SecondName(form, tensor.name);
    const SafetensorsView* second = second_name.empty() ? nullptr : file_->Find(second_name);
    if (second != nullptr) found.tensors.push_back(second);
    if (view == nullptr) view = second;
    if (is_stored && view == nullptr) {
      found.missing.push_back(form.prefix + tensor.name);
      continue;
    }
    if (is_stored) {
      found.tensors.push_back(view);
      const bool has_shape = AsMatrix(Shape(view->shape)) == AsMatrix(tensor.shape);
      if (!has_shape || !IsReadableDType(view->dtype)) {
        found.wrong.push_back(absl::StrCat(view->name, " is ", view->dtype, " ",
                                           Shape(view->shape).ToString(), ", expected ",
                                           tensor.shape.ToString()));
      }
    }
    for (const OriginalTensor::Part& part : tensor.parts) {
      found.locations[part.parameter.name] = {view, part.first_row, part.rearrangement};
    }
  }
}

void SingleFile::FindOthers(const std::map<std::string, const OriginalForm*>& forms) {
  std::set<const SafetensorsView*> known;
  for (const auto& [name, component] : found_) {
    known.insert(component.tensors.begin(), component.tensors.end());
  }
  for (const SafetensorsView& view : file_->tensors()) {
    if (known.count(&view) > 0) continue;
    // The component with the longest prefix of the name.
    const OriginalForm* owner = nullptr;
    std::string component;
    for (const auto& [name, form] : forms) {
      if (!absl::StartsWith(view.name, form->prefix)) continue;
      if (owner != nullptr && owner->prefix.size() > form->prefix.size()) continue;
      owner = form;
      component = name;
    }
    if (owner == nullptr) {
      other_tensors_.push_back(view.name);
      continue;
    }
    const std::string name = view.name.substr(owner->prefix.size());
    const bool is_ignored =
        std::any_of(owner->ignored.begin(), owner->ignored.end(),
                    [&name](const std::string& start) { return absl::StartsWith(name, start); });
    if (!is_ignored) found_[component].surplus.push_back(view.name);
  }
}

absl::Status SingleFile::Check() const {
  std::vector<std::string> lines;
  for (const auto& [name, component] : found_) {
    const auto add = [&lines, &name = name](const char* what,
                                            const std::vector<std::string>& items) {
      if (items.empty()) return;
      lines.push_back(absl::StrCat(name, ": ", items.size(), " ", what, ": ", ShowNames(items)));
    };
    add("missing", component.missing);
    add("surplus", component.surplus);
    add("wrong", component.wrong);
  }
  if (lines.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file_->name(), ": these are not the weights of this configuration in the original layout\n  ",
      absl::StrJoin(lines, "\n  ")));
}

int64_t SingleFile::num_mismatches() const {
  size_t count = static_cast<size_t>(num_absent_);
  for (const auto& [name, component] : found_) {
    count += component.missing.size() + component.surplus.size() + component.wrong.size();
  }
  return static_cast<int64_t>(count);
}

nn::ParameterSourcePtr SingleFile::SourceOf(const std::string& component) const {
  return nn::SourceOf([file = file_, locations = found_.at(component).locations](
                          const nn::ParameterInfo& parameter) -> absl::StatusOr<Tensor> {
    const auto found = locations.find(parameter.name);
    if (found == locations.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file->name(), ": ", ShowText(parameter.name), " is missing"));
    }
    const Location& location = found->second;
    if (location.rearrangement == Rearrangement::kIdentity) {
      return IdentityMatrix(parameter.shape[0]);
    }
    return ReadRows(file->name(), *location.view, location.first_row, parameter,
                    location.rearrangement);
  });
}

StoredFormat SingleFile::FormatOf(const std::string& component) const {
  return NarrowestFormat(found_.at(component).tensors);
}

absl::Status WriteSingleFile(const std::string& path,
                             const std::vector<WrittenComponent>& components) {
  struct Written {
    OriginalTensor tensor;
    const nn::ParameterSource* source;
  };
  std::vector<Written> tensors;
  std::vector<SafetensorsEntry> entries;
  for (const WrittenComponent& written : components) {
    for (const OriginalTensor& tensor :
         OriginalTensors(written.form->layout, written.component->parameters)) {
      if (tensor.name.empty()) {
        DPIPE_RETURN_IF_ERROR(CheckIsIdentity(written, tensor.parts[0].parameter));
        continue;
      }
      for (const std::string& name :
           {written.form->prefix + tensor.name, SecondName(*written.form, tensor.name)}) {
        if (name.empty()) continue;
        entries.push_back(EntryOf(name, tensor.shape, written.format));
        tensors.push_back({tensor, written.source.get()});
      }
    }
  }
  return WriteWeightsInTurn(path, entries, [&tensors](size_t i) {
    return ReadJoined(tensors[i].tensor, *tensors[i].source);
  });
}

}  // namespace dpipe::models
