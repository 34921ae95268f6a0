// The description of the interface for people, made of openapi.json.

import { byId, make } from "./dom.js";

const described = await (await fetch("/openapi.json")).json();

/** The schema that a reference names, or the schema itself. */
const resolved = (schema = {}) =>
  schema.$ref ? described.components.schemas[schema.$ref.split("/").at(-1)] : schema;

function kind(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return schema.contentMediaType ? "file" : (schema.type ?? "anything");
}

function fields(schema) {
  const { properties = {}, required = [] } = resolved(schema);
  return Object.entries(properties).map(([name, field]) => [
    make("dt", {}, make("code", {}, name), ` ${kind(field)}${required.includes(name) ? "" : ", optional"}`),
    make("dd", {}, field.description ?? ""),
  ]).flat();
}

function route(method, path, about) {
  const [type, body] = Object.entries(about.requestBody?.content ?? {})[0] ?? [];
  const answer = about.responses["200"]?.content ?? {};
  const [answerType, answered] = Object.entries(answer)[0] ?? [];
  return make("section", { class: "card route" },
    make("h3", {}, make("code", {}, `${method.toUpperCase()} ${path}`)),
    make("p", {}, about.description ?? about.summary),
    body ? make("p", { class: "hint" }, `Takes ${type}:`) : null,
    body ? make("dl", {}, ...fields(body.schema)) : null,
    answered ? make("p", { class: "hint" }, `Gives ${answerType}${answered.schema?.$ref ? `, ${kind(answered.schema)}:` : ""}`) : null,
    answered ? make("dl", {}, ...fields(answered.schema)) : null);
}

const groups = new Map();
for (const [path, methods] of Object.entries(described.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    const name = about.tags?.[0] ?? "other";
    groups.set(name, [...(groups.get(name) ?? []), route(method, path, about)]);
  }
}
for (const [name, routes] of groups) {
  byId("routes").append(make("h2", {}, name.charAt(0).toUpperCase() + name.slice(1)), ...routes);
}
