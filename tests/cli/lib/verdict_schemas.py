# SPDX-License-Identifier: Apache-2.0
"""What JUnit's XML and SARIF 2.1.0 demand of the parts that `waylay check` writes, after the JUnit schema that
CI systems read by and the SARIF standard (OASIS, 2.1.0). Anything else is an error, members that the schemas
do not know too.

    verdict_schemas.py FILE.xml|FILE.sarif ...

With WAYLAY_TEST_SARIF_SCHEMA and WAYLAY_TEST_JUNIT_XSD they are also held to the schemas in those files.
"""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml


def demand(what, path, words):
    if not what:
        raise AssertionError(f"{path}: {words}")


# --- JUnit -------------------------------------------------------------------------------------------------

NUMBER, TIME, TEXT = r"\d+", r"\d+(\.\d+)?", r"(?s).*"
WHEN = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
# element: (attributes it must have, attributes it may have, elements in it and how often, in this order)
JUNIT = {
    "testsuites": ({}, {}, {"testsuite": (0, None)}),
    "testsuite": ({"name": TEXT, "tests": NUMBER, "failures": NUMBER, "errors": NUMBER, "time": TIME,
                   "timestamp": WHEN, "hostname": r"\S.*", "package": TEXT, "id": NUMBER}, {"skipped": NUMBER},
                  {"properties": (1, 1), "testcase": (0, None), "system-out": (1, 1), "system-err": (1, 1)}),
    "properties": ({}, {}, {"property": (1, None)}),
    "property": ({"name": r"\S.*", "value": TEXT}, {}, {}),
    "testcase": ({"name": TEXT, "classname": TEXT, "time": TIME}, {},
                 {"failure": (0, 1), "error": (0, 1), "skipped": (0, 1)}),
    "failure": ({"type": TEXT}, {"message": TEXT}, {}),
    "error": ({"type": TEXT}, {"message": TEXT}, {}),
    "system-out": ({}, {}, {}),
    "system-err": ({}, {}, {}),
}


def junit_element(element, path):
    path += "/" + element.tag
    demand(element.tag in JUNIT, path, "no such element")
    must, may, inside = JUNIT[element.tag]
    for name, pattern in must.items():
        demand(name in element.attrib, path, f"no attribute {name}")
    for name, value in element.attrib.items():
        pattern = {**must, **may}.get(name)
        demand(pattern, path, f"no attribute {name} is known")
        demand(re.fullmatch(pattern, value), path, f"{name} is {value!r}")
    if inside:
        demand(not (element.text or "").strip(), path, "text where elements are")
    for name, (least, most) in inside.items():
        count = len(element.findall(name))
        demand(least <= count <= (count if most is None else most), path, f"{count} elements {name}")
    order = [list(inside).index(child.tag) if child.tag in inside else -1 for child in element]
    demand(-1 not in order, path, f"elements that do not go in it: {[child.tag for child in element]}")
    demand(order == sorted(order), path, "elements in another order")
    for child in element:
        junit_element(child, path)
    if element.tag == "testcase":
        demand(len(element) <= 1, path, "more than one outcome")


def junit(path):
    root = xml.parse(path).getroot()
    demand(root.tag == "testsuites", path, f"its root is {root.tag}")
    junit_element(root, path)
    for suite in root:
        cases = suite.findall("testcase")
        for name, have in (("tests", len(cases)), ("failures", len(suite.findall("testcase/failure"))),
                           ("errors", len(suite.findall("testcase/error")))):
            demand(int(suite.get(name)) == have, path, f"{name} is {suite.get(name)}, there are {have}")
        demand(len({case.get("name") for case in cases}) == len(cases), path, "two tests of one name")
    schema = os.environ.get("WAYLAY_TEST_JUNIT_XSD")
    if schema:
        subprocess.run(["xmllint", "--noout", "--schema", schema, path], check=True)


# --- SARIF -------------------------------------------------------------------------------------------------

LEVELS = {"none", "note", "warning", "error"}
URI = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})*")


def sarif_object(value, path, must, may=()):
    demand(isinstance(value, dict), path, "is no object")
    for name in must:
        demand(name in value, path, f"no {name}")
    for name in value:
        demand(name in must or name in may, path, f"no property {name} is known")
    return value


def sarif_list(value, path, each):
    demand(isinstance(value, list), path, "is no array")
    for i, one in enumerate(value):
        each(one, f"{path}[{i}]")


def sarif_text(value, path):
    demand(isinstance(value, str) and value, path, "is no text")


def sarif_count(value, path, least=0):
    demand(isinstance(value, int) and not isinstance(value, bool) and value >= least, path, "is no number")


def sarif_message(value, path):
    sarif_text(sarif_object(value, path, ["text"], ["markdown", "id", "arguments"])["text"], path)


def sarif_level(value, path):
    demand(value in LEVELS, path, f"there is no level {value!r}")


def sarif_rule(value, path):
    sarif_object(value, path, ["id"], ["shortDescription", "fullDescription", "help", "helpUri", "name"])
    sarif_text(value["id"], path)
    for name in "shortDescription", "help":
        if name in value:
            sarif_message(value[name], path + "." + name)


def sarif_location(value, path):
    physical = sarif_object(sarif_object(value, path, [], ["physicalLocation"])["physicalLocation"], path,
                            ["artifactLocation"], ["region"])
    uri = sarif_object(physical["artifactLocation"], path, [], ["uri", "uriBaseId", "index"])["uri"]
    sarif_text(uri, path)
    demand(URI.fullmatch(uri), path, f"{uri!r} is no URI reference")
    if "region" in physical:
        region = sarif_object(physical["region"], path, [], ["startLine", "startColumn", "endLine", "endColumn"])
        sarif_count(region["startLine"], path, 1)


def sarif_run(run, path):
    sarif_object(run, path, ["tool"], ["results", "invocations", "artifacts"])
    driver = sarif_object(sarif_object(run["tool"], path, ["driver"])["driver"], path, ["name"],
                          ["version", "semanticVersion", "informationUri", "rules"])
    sarif_text(driver["name"], path)
    sarif_text(driver["version"], path)
    sarif_list(driver["rules"], path + ".rules", sarif_rule)
    rules = [rule["id"] for rule in driver["rules"]]
    demand(len(rules) == len(set(rules)), path, "two rules of one id")

    def result(value, at):
        sarif_object(value, at, ["message"], ["ruleId", "level", "locations", "kind"])
        sarif_message(value["message"], at)
        sarif_level(value.get("level", "warning"), at)
        demand(value.get("ruleId") in rules, at, f"there is no rule {value.get('ruleId')!r}")
        sarif_list(value.get("locations", []), at + ".locations", sarif_location)

    def notification(value, at):
        sarif_object(value, at, ["message"], ["level", "descriptor", "locations"])
        sarif_message(value["message"], at)
        sarif_level(value.get("level", "warning"), at)

    def invocation(value, at):
        sarif_object(value, at, ["executionSuccessful"], ["exitCode", "toolExecutionNotifications"])
        demand(isinstance(value["executionSuccessful"], bool), at, "executionSuccessful is no boolean")
        sarif_count(value["exitCode"], at)
        sarif_list(value.get("toolExecutionNotifications", []), at + ".notifications", notification)

    sarif_list(run["invocations"], path + ".invocations", invocation)
    sarif_list(run["results"], path + ".results", result)


def sarif(path):
    with open(path, encoding="utf-8") as file:
        root = json.load(file)
    sarif_object(root, path, ["version", "runs"], ["$schema"])
    demand(root["version"] == "2.1.0", path, f"its version is {root['version']!r}")
    demand(URI.fullmatch(root.get("$schema", "")), path, "$schema is no URI")
    sarif_list(root["runs"], path + ".runs", sarif_run)
    schema = os.environ.get("WAYLAY_TEST_SARIF_SCHEMA")
    if schema:
        import jsonschema
        with open(schema, encoding="utf-8") as file:
            jsonschema.validate(root, json.load(file))


def main():
    for path in sys.argv[1:]:
        (junit if path.endswith(".xml") else sarif)(path)


if __name__ == "__main__":
    main()
