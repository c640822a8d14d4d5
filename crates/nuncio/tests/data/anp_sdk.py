"""ANP's own Python SDK as a client of a Nuncio.

Usage: anp_sdk.py BASE FOLDER. It serves its own DID document and message service on a free port, prints its DID,
and goes on when a line comes in (by then the DID was granted what it needs). Each thing that held is a line
`held NAME`; the first that does not hold ends it.
"""

import asyncio
import json
import logging
import queue
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import aiohttp
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from anp.anp_crawler.anp_client import ANPClient
from anp.anp_crawler.anp_crawler import ANPCrawler
from anp.authentication import DIDWbaAuthHeader, create_did_wba_document
from anp.authentication.did_resolver import resolve_did_document
from anp.authentication.did_wba import _extract_public_key, _find_verification_method, validate_did_document_binding
from anp.authentication.http_signatures import verify_http_message_signature
from anp.openanp import RemoteAgent
from anp.openanp.client.agent import RpcError
from anp.proof import verify_w3c_proof
from anp.proof.object_proof import verify_object_proof
from anp.proof.rfc9421_origin import (
    Rfc9421OriginProofGenerationOptions,
    Rfc9421OriginProofVerificationOptions,
    generate_rfc9421_origin_proof,
    verify_rfc9421_origin_proof,
)

logging.disable(logging.CRITICAL)


def held(name):
    print(f"held {name}", flush=True)


class Home:
    """Where this client's DID document is found, and where messages to it go."""

    def __init__(self):
        self.documents = {}
        self.messages = queue.Queue()
        home = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                document = home.documents.get(self.path)
                self.answer(200 if document else 404, document or {})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = json.loads(body)
                url = f"http://localhost:{home.port}{self.path}"
                meta = message["params"]["meta"]
                accepted = {
                    "accepted": True,
                    "message_id": meta["message_id"],
                    "operation_id": meta["operation_id"],
                    "target_did": meta["target"]["did"],
                    "accepted_at": "2026-01-01T00:00:00Z",
                }
                self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": accepted})
                home.messages.put((url, dict(self.headers.items()), body, message))

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Me:
    """A DID made by the SDK, on disk as the SDK wants it."""

    def __init__(self, home, folder, name, profile):
        messages = {"id": "#messages", "type": "ANPMessageService", "serviceEndpoint": f"http://localhost:{home.port}/anp"}
        document, keys = create_did_wba_document(
            "localhost", home.port, ["client", name], services=[messages], did_profile=profile
        )
        self.document, self.did = document, document["id"]
        path = "/".join(self.did.split(":")[3:])
        home.documents[f"/{path}/did.json"] = document
        self.document_path, self.key_path = folder / f"{name}.json", folder / f"{name}.pem"
        self.document_path.write_text(json.dumps(document))
        self.key_path.write_bytes(keys["key-1"][0])
        self.key = load_pem_private_key(keys["key-1"][0], password=None)

    def files(self):
        return {"did_document_path": str(self.document_path), "private_key_path": str(self.key_path)}


async def post(url, body, headers):
    async with aiohttp.ClientSession() as session:
        async with session.post(url, data=body, headers=headers) as response:
            return response.status, dict(response.headers), await response.text()


async def crawl(base, me):
    client = ANPClient(**me.files())
    page = await client.fetch(f"{base}/.well-known/agent-descriptions")
    assert page["success"], page
    items = page["data"]["items"]
    assert page["data"]["@type"] == "CollectionPage" and len(items) == 1, page
    ad_url = items[0]["@id"]
    crawler = ANPCrawler(**me.files())
    content, tools = await crawler.fetch_text(ad_url)
    ad = json.loads(content["content"])
    assert ad["type"] == "AgentDescription" and ad["url"] == ad_url, ad
    names = {tool["function"]["name"] for tool in tools}
    assert {"echo", "count", "chat"} <= names, names
    held("crawl: the list, the description and the tools in it")
    linked = [it["url"] for it in ad["interfaces"] if it["protocol"] == "openrpc" and "url" in it]
    assert len(linked) == 2, linked
    for url in linked:
        _, found = await ANPCrawler(**me.files()).fetch_text(url)
        assert found, url
    held("crawl: the interface documents behind the links")
    answer = await crawler.execute_tool_call("echo", {"word": "hello"})
    assert answer["success"] and answer["result"] == {"word": "hello"}, answer
    held("crawl: a tool is called as the crawler calls it")
    return ad


async def remote_agent(ad, me):
    agent = await RemoteAgent.discover(ad["url"], DIDWbaAuthHeader(**me.files()))
    assert {"echo", "count", "chat", "authorized"} <= set(agent.method_names), agent.method_names
    assert await agent.echo(word="grüß 世界") == {"word": "grüß 世界"}
    assert await agent.count() == "counted"
    first = await agent.chat(message=json.dumps({"script": [[{"text": "good day"}]]}))
    assert first["text"] == "good day", first
    again = await agent.chat(message=json.dumps({"script": [[{"text": "again"}]]}), session=first["session"])
    assert again == {"text": "again", "session": first["session"]}, again
    for method, arguments, code in [("echo", {"word": 1}, -32602), ("secret", {}, 1006)]:
        try:
            raise AssertionError(await agent.call(method, **arguments))
        except RpcError as error:
            assert error.code == code, (method, error)
    held("RemoteAgent: discovered, called, and told what is wrong")


async def signed(base, me):
    url = f"{base}/agents/script/rpc"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {}}).encode()
    status, headers, _ = await post(url, body, {"Content-Type": "application/json"})
    assert status == 401, status
    auth = DIDWbaAuthHeader(**me.files())
    assert auth.should_retry_after_401(headers), headers
    plain = {"Content-Type": "application/json"}
    retry = auth.get_challenge_auth_header(url, headers, method="POST", headers=plain, body=body)
    status, headers, text = await post(url, body, plain | retry)
    assert status == 200 and json.loads(text) == {"jsonrpc": "2.0", "id": 1, "result": "counted"}, text
    held("RFC 9421: a challenge is answered")
    status, _, _ = await post(url, body, plain | retry)
    assert status == 401, status
    held("RFC 9421: the same signature does not count again")
    token = auth.update_token(url, headers)
    assert token
    again = auth.get_auth_header(url, method="POST", headers=plain, body=body)
    assert again == {"Authorization": f"Bearer {token}"}
    for _ in range(2):
        status, headers, text = await post(url, body, plain | again)
        assert status == 200 and json.loads(text)["result"] == "counted", text
    held("token: taken from Authentication-Info and used again")
    # A token of before, or of another server on this machine: the client signs by itself and succeeds.
    client = ANPClient(**me.files())
    client.auth_client.tokens["localhost"] = token[:-6] + "AAAAAA"
    answer = await client.call_jsonrpc(url, "count", {})
    assert answer["success"] and client.auth_client.tokens["localhost"] != token[:-6] + "AAAAAA", answer
    held("token: a stale one is replaced by the client itself")


async def legacy(base, me):
    url = f"{base}/agents/script/rpc"
    auth = DIDWbaAuthHeader(**me.files(), auth_mode="legacy_didwba")
    body = json.dumps({"jsonrpc": "2.0", "id": "l", "method": "count", "params": {}}).encode()
    headers = auth.get_auth_header(url)
    assert headers["Authorization"].startswith("DIDWba "), headers
    status, answered, text = await post(url, body, headers)
    assert status == 200 and json.loads(text)["result"] == "counted", text
    assert auth.update_token(url, answered)
    status, _, _ = await post(url, body, headers)
    assert status == 401, status


async def documents(base, ad):
    did = ad["did"]
    document = await resolve_did_document(did, verify_proof=True, base_url_override=base)
    assert document["id"] == did and validate_did_document_binding(document, verify_proof=True)
    held("verify: our DID document, resolved and bound by the SDK")
    method = _find_verification_method(document, ad["proof"]["verificationMethod"])
    key = _extract_public_key(method)
    host = urlparse(base).netloc
    assert verify_w3c_proof(ad, key, expected_purpose="assertionMethod", expected_domain=host)
    assert not verify_w3c_proof(ad, key, expected_domain="elsewhere.example")
    assert not verify_w3c_proof(ad | {"name": "another"}, key)
    verify_object_proof(ad, issuer_did=did, issuer_did_document=document)
    held("verify: the description's proof, by both of the SDK's verifiers")
    service = await resolve_did_document(f"did:wba:{host.replace(':', '%3A')}", base_url_override=base)
    assert any(it["type"] == "ANPMessageService" for it in service["service"]), service
    return document


def direct(method, meta, body, me):
    now = int(time.time())
    options = Rfc9421OriginProofGenerationOptions(created=now, expires=now + 300, nonce=uuid.uuid4().hex)
    key_id = me.document["authentication"][0]
    proof = generate_rfc9421_origin_proof(method, meta, body, me.key, key_id, options=options)
    auth = {"scheme": "anp-rfc9421-origin-proof-v1", "origin_proof": proof}
    return {"jsonrpc": "2.0", "id": "d1", "method": method, "params": {"meta": meta, "auth": auth, "body": body}}


async def message(base, did, document, me, home):
    client = ANPClient(**me.files())
    meta = {
        "profile": "anp.direct.base.v1",
        "security_profile": "transport-protected",
        "sender_did": me.did,
        "target": {"kind": "agent", "did": did},
        "operation_id": "op-1",
        "message_id": "msg-1",
        "content_type": "text/plain",
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    body = {"text": json.dumps({"script": [[{"text": "I heard you"}]]})}
    sent = await client.fetch_url(f"{base}/anp", "POST", body=direct("direct.send", meta, body, me))
    answer = json.loads(sent["text"])
    assert answer["result"]["accepted"] and answer["result"]["message_id"] == "msg-1", answer
    url, headers, raw, reply = await asyncio.to_thread(home.messages.get, timeout=60)
    params = reply["params"]
    assert params["body"]["text"] == "I heard you" and params["body"]["reply_to_message_id"] == "msg-1", reply
    assert params["meta"]["sender_did"] == did and params["meta"]["target"] == {"kind": "agent", "did": me.did}, reply
    verify_rfc9421_origin_proof(
        params["auth"]["origin_proof"],
        reply["method"],
        params["meta"],
        params["body"],
        did_document=document,
        options=Rfc9421OriginProofVerificationOptions(expected_signer_did=did),
    )
    good, why, _ = verify_http_message_signature(document, "POST", url, headers, raw)
    assert good, why
    held("direct.send: answered at our message service, and the answer's proofs are good to the SDK")


async def main():
    base, folder = sys.argv[1].rstrip("/"), Path(sys.argv[2])
    home = Home()
    me, older = Me(home, folder, "me", "e1"), Me(home, folder, "older", "k1")
    print(json.dumps([me.did, older.did]), flush=True)
    sys.stdin.readline()
    ad = await crawl(base, me)
    await remote_agent(ad, me)
    await signed(base, me)
    await signed(base, older)
    held("k1: another kind of key does all of that too")
    await legacy(base, me)
    await legacy(base, older)
    held("legacy: the header of older clients, once each, with both kinds of keys")
    document = await documents(base, ad)
    await message(base, ad["did"], document, me, home)


asyncio.run(main())
