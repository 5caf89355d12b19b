#include "models/single_file/convert.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/base/files/replace_folder.h"
#include "core/base/text/show.h"
#include "models/clip_text/clip_text.h"
#include "models/folder/find_folders.h"
#include "models/folder/pipeline_folder.h"
#include "models/lora/lora.h"
#include "models/single_file/single_file.h"
#include "models/single_file/stored_component.h"
#include "models/tokenizer/clip_tokenizer.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

const char* FormatName(StoredFormat format) {
  switch (format) {
    case StoredFormat::kFp32:
      return "fp32";
    case StoredFormat::kFp16:
      return "fp16";
    case StoredFormat::kBf16:
      return "bf16";
  }
  return "";
}

absl::Status CheckIsNew(const std::string& out) {
  std::error_code error;
  if (!fs::exists(out, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(out, " exists already; choose another --out, or remove it"));
}

// Returns an error with the names that were expected and found.
absl::Status NoDenoiser(const SafetensorsFile& file, const StoredComponent& denoiser) {
  std::vector<std::string> names;
  for (const SafetensorsView& view : file.tensors()) names.push_back(view.name);
  const OriginalForm& form = denoiser.forms[0];
  const std::string example = OriginalTensors(form.layout, denoiser.parameters)[0].name;
  return absl::InvalidArgumentError(absl::StrCat(
      file.name(), ": no tensor of the ", denoiser.name, " was found, such as ", form.prefix,
      example, "; the file has ", names.empty() ? "none" : ShowNames(names)));
}

// Notes tokenizers with fewer tokens than their text encoders embed: the built-in configurations
// come without CLIP's vocabulary.
void NoteSmallVocabularies(const PipelineFolder& config, const std::string& out,
                           ConversionNotes* notes) {
  for (const std::string& name : config.index().components) {
    if (!absl::StartsWith(name, "tokenizer")) continue;
    const std::string encoder = absl::StrCat("text_encoder", name.substr(9));
    const auto text = ReadClipTextConfig(config.ConfigOf(encoder));
    const auto tokenizer = ClipTokenizer::Load(config.PathOf(name));
    if (!text.ok() || !tokenizer.ok() || tokenizer->vocab_size() >= text->vocab_size) continue;
    notes->push_back(absl::StrCat(
        "Warning: ", config.PathOf(name), " has ", tokenizer->vocab_size(), " tokens, but ",
        encoder, " embeds ", text->vocab_size,
        ", so texts are read wrongly: put the model's own vocab.json and merges.txt into ", out,
        "/", name));
  }
}

std::string DescribeOthers(const std::vector<std::string>& names) {
  return absl::StrCat("Not read: ", names.size(), " tensors of no component: ", ShowNames(names));
}

// Writes the folder's files and the file's weights into `staged`.
absl::Status WriteFolder(const PipelineFolder& config, const SingleFile& file,
                         const std::vector<StoredComponent>& components,
                         std::optional<StoredFormat> format, const std::string& staged) {
  CopiedComponents copied;
  for (const StoredComponent& component : components) {
    copied.read.insert(component.name);
    if (file.has(component.name)) copied.without_weights.insert(component.name);
  }
  DPIPE_RETURN_IF_ERROR(config.CopyTo(staged, copied));
  for (const StoredComponent& component : components) {
    if (!file.has(component.name)) continue;
    DPIPE_RETURN_IF_ERROR(SaveWeightsFrom(*file.SourceOf(component.name), component.parameters,
                                          absl::StrCat(staged, "/", component.name), component.file,
                                          format.value_or(file.FormatOf(component.name))));
  }
  return absl::OkStatus();
}

// Returns the format of a component's weights in a folder.
absl::StatusOr<StoredFormat> FormatOfFolder(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const WeightFiles files, OpenWeights(path));
  std::vector<const SafetensorsView*> tensors;
  for (const SafetensorsFile& file : files.files) {
    for (const SafetensorsView& view : file.tensors()) tensors.push_back(&view);
  }
  return NarrowestFormat(tensors);
}

}  // namespace

absl::StatusOr<FittingConfig> FindFittingConfig(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  FittingConfig fitting;
  std::string closest;
  absl::Status difference;
  int64_t fewest = 0;
  for (const std::string& name : BuiltInModels()) {
    DPIPE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(name));
    const auto config = PipelineFolder::Open(folder);
    if (!config.ok()) continue;
    const auto components = ReadStoredComponents(*config);
    if (!components.ok()) continue;  // its class has no single files
    const SingleFile single(file, *components);
    const bool has_denoiser = single.has(components->front().name);
    const absl::Status status =
        has_denoiser ? single.Check() : NoDenoiser(file, components->front());
    if (status.ok()) {
      if (!fitting.name.empty()) fitting.others.push_back(name);
      if (fitting.name.empty()) fitting.name = name;
    } else if (closest.empty() || single.num_mismatches() < fewest) {
      closest = name;
      difference = status;
      fewest = single.num_mismatches();
    }
  }
  if (!fitting.name.empty()) return fitting;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " fits none of the built-in configurations (", ShowNames(BuiltInModels()),
                   "); give --config=FOLDER, the same model's folder in diffusers layout, of which "
                   "the weights are not needed. The closest is ",
                   closest, ":\n  ", difference.message()));
}

absl::StatusOr<ConversionNotes> ConvertFileToFolder(const std::string& path,
                                                    const std::string& config_path,
                                                    const std::string& out,
                                                    std::optional<StoredFormat> format) {
  DPIPE_RETURN_IF_ERROR(CheckIsNew(out));
  DPIPE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder config, PipelineFolder::Open(config_path));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<StoredComponent> components,
                         ReadStoredComponents(config));
  const SingleFile single(file, components);
  if (!single.has(components.front().name)) return NoDenoiser(file, components.front());
  DPIPE_RETURN_IF_ERROR(single.Check());
  std::vector<std::string> read, copied, lacking;
  for (const StoredComponent& component : components) {
    if (single.has(component.name)) {
      read.push_back(absl::StrCat(
          component.name, " (", FormatName(format.value_or(single.FormatOf(component.name))), ")"));
    } else {
      (config.HasWeights(component.name) ? copied : lacking).push_back(component.name);
    }
  }
  if (!lacking.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no weights of ", absl::StrJoin(lacking, ", "), ", nor does ",
                     config_path, "; give --config=FOLDER, a folder that has them"));
  }
  ConversionNotes notes = {absl::StrCat("From the file: ", absl::StrJoin(read, ", "))};
  notes.push_back(absl::StrCat("From ", config_path, ": configurations",
                               copied.empty() ? "" : ", weights of ", absl::StrJoin(copied, ", ")));
  if (!single.other_tensors().empty()) notes.push_back(DescribeOthers(single.other_tensors()));
  NoteSmallVocabularies(config, out, &notes);
  const std::string staged = out + ".partial";
  std::error_code error;
  fs::remove_all(staged, error);  // left over by a run that was killed
  absl::Status status = MakeParentFolder(staged);
  if (status.ok()) status = MakeOwnFolder(staged);
  if (status.ok()) status = WriteFolder(config, single, components, format, staged);
  if (status.ok()) status = ReplaceFolder(staged, out);
  if (!status.ok()) fs::remove_all(staged, error);
  DPIPE_RETURN_IF_ERROR(status);
  return notes;
}

absl::StatusOr<ConversionNotes> ConvertFolderToFile(const std::string& path, const std::string& out,
                                                    std::optional<StoredFormat> format,
                                                    bool denoiser_only) {
  DPIPE_RETURN_IF_ERROR(CheckIsNew(out));
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_ASSIGN_OR_RETURN(std::vector<StoredComponent> components, ReadStoredComponents(folder));
  if (denoiser_only) components.resize(1);
  std::vector<WrittenComponent> written;
  std::vector<std::string> names;
  for (const StoredComponent& component : components) {
    const std::string weights = folder.PathOf(component.name);
    if (!folder.HasWeights(component.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has no weights of ", component.name,
          denoiser_only ? "" : "; a single file holds all components (or --denoiser_only)"));
    }
    WrittenComponent next;
    next.component = &component;
    // A transformer alone has no prefix.
    const bool is_plain = denoiser_only && component.forms.back().prefix.empty();
    next.form = is_plain ? &component.forms.back() : &component.forms.front();
    DPIPE_ASSIGN_OR_RETURN(next.source, WeightReader::OpenParameters(weights, component.parameters,
                                                                     {component.ignored_prefixes}));
    DPIPE_ASSIGN_OR_RETURN(next.format, FormatOfFolder(weights));
    next.format = format.value_or(next.format);
    names.push_back(absl::StrCat(component.name, " (", FormatName(next.format), ")"));
    written.push_back(std::move(next));
  }
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(out));
  DPIPE_RETURN_IF_ERROR(WriteSingleFile(out, written));
  ConversionNotes notes = {absl::StrCat("Written: ", absl::StrJoin(names, ", ")),
                           absl::StrCat("A single file holds no configuration: to convert it back, "
                                        "give --config=",
                                        path)};
  std::error_code error;
  if (fs::exists(absl::StrCat(path, "/", kLoraFile), error)) {
    notes.push_back(absl::StrCat("Warning: the low-rank adapters in ", path, "/", kLoraFile,
                                 " are not part of the file; load them beside it"));
  }
  return notes;
}

}  // namespace dpipe::models
