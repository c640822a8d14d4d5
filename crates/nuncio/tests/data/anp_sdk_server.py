"""ANP's own Python SDK as a server, for a Nuncio to find and call.

Usage: anp_sdk_server.py. It serves, each on a free port of this machine:
  fast   FastANP with its middleware: callers sign, or bring the token they were given
  open   OpenANP with its middleware, which guards even the document of its methods
  free   OpenANP without one
and, elsewhere, the DID documents of the first two. One line of JSON says where; then a line for each request that
a middleware let in or turned away: NAME PATH HOW STATUS. It ends when its input does.
"""

import asyncio
import json
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import uvicorn
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request
from pydantic import BaseModel

from anp.authentication import create_did_wba_document
from anp.authentication.did_wba_verifier import DidWbaVerifierConfig
from anp.fastanp import Context as FastContext
from anp.fastanp import FastANP
from anp.openanp import AgentConfig, Context, anp_agent, interface
from anp.openanp.middleware import create_auth_middleware

logging.disable(logging.CRITICAL)


def listening():
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("127.0.0.1", 0))
    made.listen(64)
    return made, made.getsockname()[1]


def tokens():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return DidWbaVerifierConfig(jwt_private_key=private.decode(), jwt_public_key=public.decode())


def told(app, name):
    """Says of each request how its sender showed who they are, and what came of it."""

    @app.middleware("http")
    async def tell(request: Request, call_next):
        response = await call_next(request)
        headers = request.headers
        how = "nothing"
        if "signature-input" in headers:
            how = "signature"
        elif headers.get("authorization", "").startswith("Bearer "):
            how = "token"
        print(f"{name} {request.url.path} {how} {response.status_code}", flush=True)
        return response


class Documents:
    """Where DID documents are found."""

    def __init__(self):
        self.documents = {}
        home = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                document = home.documents.get(self.path)
                body = json.dumps(document or {}).encode()
                self.send_response(200 if document else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def make(self, name, description):
        service = {"id": "#ad", "type": "AgentDescription", "serviceEndpoint": description}
        document, _ = create_did_wba_document("localhost", self.port, ["agents", name], services=[service])
        path = "/".join(document["id"].split(":")[3:])
        self.documents[f"/{path}/did.json"] = document
        return document["id"]


class Stay(BaseModel):
    """When a guest comes, and for how long."""

    day: str
    nights: int = 1


def fast(did, base):
    anp = FastANP(
        name="Fast Hotel",
        description="Books rooms, fast.",
        did=did,
        agent_domain=base,
        auth_config=tokens(),
        owner={"type": "Organization", "name": "Fast Ltd", "url": base},
    )

    @anp.interface("/info/book.json", description="Book a room.")
    def book(stay: Stay, guest: str, ctx: FastContext) -> dict:
        return {"day": stay.day, "nights": stay.nights, "guest": guest, "caller": ctx.did}

    @anp.interface("/info/fail.json", description="Always fails.")
    def fail() -> dict:
        raise ValueError("no rooms left")

    @anp.app.get("/ad.json")
    def description():
        ad = anp.get_common_header()
        ad["interfaces"] = [anp.interfaces[book].link_summary, anp.interfaces[fail].content]
        return ad

    told(anp.app, "fast")
    return anp.app


def opened(did, name):
    @anp_agent(AgentConfig(name=f"{name} hotel", did=did, description="Finds rooms.", prefix="/hotel"))
    class Hotel:
        @interface
        async def search(self, city: str, ctx: Context) -> dict:
            """Find rooms in a city.

            Args:
                city: Where.
            """
            return {"rooms": [f"{city} 101"], "caller": ctx.did}

        @interface(mode="link")
        async def cancel(self, booking: str) -> dict:
            """Cancel a booking."""
            return {"cancelled": booking}

    app = FastAPI()
    app.include_router(Hotel.router())
    if did.startswith("did:wba:localhost"):
        app.middleware("http")(create_auth_middleware(tokens()))
    told(app, name)
    return app


async def serve():
    documents = Documents()
    (fast_socket, fast_port), (open_socket, open_port), (free_socket, free_port) = listening(), listening(), listening()
    urls = {
        "fast": f"http://localhost:{fast_port}/ad.json",
        "open": f"http://localhost:{open_port}/hotel/ad.json",
        "free": f"http://localhost:{free_port}/hotel/ad.json",
    }
    fast_did = documents.make("fast", urls["fast"])
    open_did = documents.make("open", urls["open"])
    apps = [
        (fast(fast_did, f"http://localhost:{fast_port}"), fast_socket),
        (opened(open_did, "open"), open_socket),
        (opened("did:wba:free.example:hotel", "free"), free_socket),
    ]
    print(json.dumps({"urls": urls, "dids": {"fast": fast_did, "open": open_did}}), flush=True)
    servers = [(uvicorn.Server(uvicorn.Config(app, log_level="critical")), made) for app, made in apps]
    await asyncio.gather(*(server.serve(sockets=[made]) for server, made in servers))


def end_with_input():
    sys.stdin.read()
    # Nothing here is worth a proper end.
    import os

    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
asyncio.run(serve())
